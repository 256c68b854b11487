// Tests fork processes that make threads, beside a thread that reads what PostgreSQL says; by
// default ThreadSanitizer ends such a process.
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
extern "C" const char* __tsan_default_options();
extern "C" const char* __tsan_default_options() { return "die_after_fork=0"; }
#endif
#endif

#include "filters/ledger/postgres/client/load_libpq.h"

#include <dlfcn.h>
#include <libpq-fe.h>

#include "proxy/base/check.h"

namespace recourse {
namespace {

// That of its header; packages and the image bring it.
constexpr const char* kLibpq = "libpq.so.5";

struct LoadedLibpq {
  void* library = dlopen(kLibpq, RTLD_LAZY | RTLD_LOCAL);
  std::string why = library != nullptr ? "" : dlerror();
};

const LoadedLibpq& Libpq() {
  static const LoadedLibpq loaded;
  return loaded;
}

void* FunctionOf(const char* name) {
  RC_CHECK(Libpq().library != nullptr);
  void* const found = dlsym(Libpq().library, name);
  RC_CHECK(found != nullptr);
  return found;
}

}  // namespace

std::expected<void, std::string> LoadLibpq() {
  if (Libpq().library != nullptr) return {};
  return std::unexpected("a shared ledger needs libpq: " + Libpq().why);
}

}  // namespace recourse

// What is called of it, under its own names.
#define RC_LIBPQ(result, name, parameters, arguments)                                        \
  extern "C" [[gnu::visibility("hidden")]] result name parameters {                          \
    static const auto real = reinterpret_cast<decltype(&name)>(recourse::FunctionOf(#name)); \
    return real arguments;                                                                   \
  }

RC_LIBPQ(int, PQbackendPID, (const PGconn* conn), (conn))
RC_LIBPQ(void, PQclear, (PGresult * res), (res))
RC_LIBPQ(PGconn*, PQconnectdbParams,
         (const char* const* keywords, const char* const* values, int expand_dbname),
         (keywords, values, expand_dbname))
RC_LIBPQ(void, PQconninfoFree, (PQconninfoOption * connOptions), (connOptions))
RC_LIBPQ(PQconninfoOption*, PQconninfoParse, (const char* conninfo, char** errmsg),
         (conninfo, errmsg))
RC_LIBPQ(int, PQconsumeInput, (PGconn * conn), (conn))
RC_LIBPQ(int, PQenterPipelineMode, (PGconn * conn), (conn))
RC_LIBPQ(char*, PQerrorMessage, (const PGconn* conn), (conn))
RC_LIBPQ(int, PQexitPipelineMode, (PGconn * conn), (conn))
RC_LIBPQ(void, PQfinish, (PGconn * conn), (conn))
RC_LIBPQ(int, PQflush, (PGconn * conn), (conn))
RC_LIBPQ(void, PQfreemem, (void* ptr), (ptr))
RC_LIBPQ(PGresult*, PQgetResult, (PGconn * conn), (conn))
RC_LIBPQ(int, PQgetisnull, (const PGresult* res, int tup_num, int field_num),
         (res, tup_num, field_num))
RC_LIBPQ(int, PQgetlength, (const PGresult* res, int tup_num, int field_num),
         (res, tup_num, field_num))
RC_LIBPQ(char*, PQgetvalue, (const PGresult* res, int tup_num, int field_num),
         (res, tup_num, field_num))
RC_LIBPQ(int, PQisBusy, (PGconn * conn), (conn))
RC_LIBPQ(int, PQntuples, (const PGresult* res), (res))
RC_LIBPQ(int, PQpipelineSync, (PGconn * conn), (conn))
RC_LIBPQ(char*, PQresultErrorField, (const PGresult* res, int fieldcode), (res, fieldcode))
RC_LIBPQ(char*, PQresultErrorMessage, (const PGresult* res), (res))
RC_LIBPQ(ExecStatusType, PQresultStatus, (const PGresult* res), (res))
RC_LIBPQ(int, PQsendPrepare,
         (PGconn * conn, const char* stmtName, const char* query, int nParams,
          const Oid* paramTypes),
         (conn, stmtName, query, nParams, paramTypes))
RC_LIBPQ(int, PQsendQuery, (PGconn * conn, const char* query), (conn, query))
RC_LIBPQ(int, PQsendQueryPrepared,
         (PGconn * conn, const char* stmtName, int nParams, const char* const* paramValues,
          const int* paramLengths, const int* paramFormats, int resultFormat),
         (conn, stmtName, nParams, paramValues, paramLengths, paramFormats, resultFormat))
RC_LIBPQ(int, PQserverVersion, (const PGconn* conn), (conn))
RC_LIBPQ(PQnoticeReceiver, PQsetNoticeReceiver, (PGconn * conn, PQnoticeReceiver proc, void* arg),
         (conn, proc, arg))
RC_LIBPQ(int, PQsetnonblocking, (PGconn * conn, int arg), (conn, arg))
RC_LIBPQ(int, PQsocket, (const PGconn* conn), (conn))
RC_LIBPQ(ConnStatusType, PQstatus, (const PGconn* conn), (conn))
RC_LIBPQ(char*, PQuser, (const PGconn* conn), (conn))

import java.io.OutputStream;
import java.net.HttpURLConnection;
import java.net.URI;
import java.nio.charset.StandardCharsets;

/** java Intercepted.java URL: one POST; proxy and trust store come from JAVA_TOOL_OPTIONS. */
class Intercepted {
  public static void main(String[] arguments) throws Exception {
    var call = (HttpURLConnection) URI.create(arguments[0]).toURL().openConnection();
    call.setRequestMethod("POST");
    call.setDoOutput(true);
    call.setRequestProperty("Content-Type", "application/json");
    try (OutputStream out = call.getOutputStream()) {
      out.write("{\"a\": 1}".getBytes(StandardCharsets.UTF_8));
    }
    System.out.println("{\"status\": " + call.getResponseCode() + "}");
  }
}

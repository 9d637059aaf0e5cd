// weir serve over HTTP: java OverHttp.java http://127.0.0.1:8080

import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.util.regex.Pattern;

public class OverHttp {
    static final HttpClient client = HttpClient.newHttpClient();
    static String base;

    // An Answer has the status and the body: 429 is a denial, with a reason.
    record Answer(int status, String body) {
        boolean ok() {
            return status == 200;
        }

        // value returns a member of the object, which has no others in it.
        String value(String name) {
            var m = Pattern.compile("\"" + name + "\":\"?([^\",}]*)").matcher(body);
            return m.find() ? m.group(1) : "";
        }
    }

    static Answer call(String method, String path) throws Exception {
        var request = HttpRequest.newBuilder(URI.create(base + path)).method(method, HttpRequest.BodyPublishers.noBody()).build();
        var response = client.send(request, HttpResponse.BodyHandlers.ofString());
        if (response.statusCode() != 200 && response.statusCode() != 429) {
            throw new IllegalStateException(response.statusCode() + ": " + response.body());
        }
        return new Answer(response.statusCode(), response.body());
    }

    static String escape(String key) {
        return URLEncoder.encode(key, StandardCharsets.UTF_8).replace("+", "%20");
    }

    public static void main(String[] args) throws Exception {
        base = args[0];
        // Tokens: the third request of an hour is denied, unless one gives its token back.
        var user = "/rate/" + escape("user:java/http");
        var grant = call("POST", user);
        System.out.println("allowed");
        var done = call("POST", user + "/" + grant.value("request_id") + "?n=0"); // the true cost
        System.out.println("settled " + done.value("was") + " " + done.value("charged"));
        for (int i = 0; i < 3; i++) {
            var answer = call("POST", user);
            System.out.println(answer.ok() ? "allowed" : "denied " + answer.value("reason"));
        }

        // A request that waits for its turn, for ten seconds at most.
        var late = "/rate/" + escape("late:java/http");
        call("POST", late);
        var waited = call("POST", late + "?canWait=true&timeout=10s");
        System.out.println("granted " + (waited.value("waited_ms").isEmpty() ? "at once" : "after a wait"));

        // A lease bounds the work in flight.
        var job = "/lease/" + escape("job:java/http");
        var lease = call("POST", job + "?ttl=10s").value("lease_id");
        System.out.println("leased");
        System.out.println("refused " + call("POST", job).value("reason"));
        call("POST", job + "/" + lease + "?ttl=20s");
        System.out.println("renewed");
        call("DELETE", job + "/" + lease + "?outcome=success");
        System.out.println("returned");
    }
}

// weir serve over the protocol of Redis, without a library: java OverResp.java 6379

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

public class OverResp {
    static Socket socket;
    static BufferedReader in;

    // command sends a command, and returns its reply: a Long, a String or a List.
    static Object command(String... words) throws IOException {
        var text = new StringBuilder("*" + words.length + "\r\n");
        for (var word : words) {
            text.append("$" + word.getBytes(StandardCharsets.UTF_8).length + "\r\n" + word + "\r\n");
        }
        socket.getOutputStream().write(text.toString().getBytes(StandardCharsets.UTF_8));
        return reply();
    }

    static Object reply() throws IOException {
        var line = in.readLine();
        var rest = line.substring(1);
        switch (line.charAt(0)) {
            case ':':
                return Long.parseLong(rest);
            case '$':
                return in.readLine(); // the texts of weir have no line breaks
            case '*':
                List<Object> list = new ArrayList<>();
                for (int i = Integer.parseInt(rest); i > 0; i--) {
                    list.add(reply());
                }
                return list;
            case '-':
                throw new IOException(rest);
            default:
                return rest;
        }
    }

    // call returns the map that answers a command: a list of names and values.
    static Map<String, Object> call(String... words) throws IOException {
        Map<String, Object> map = new HashMap<>();
        var list = (List<?>) command(words);
        for (int i = 0; i < list.size(); i += 2) {
            map.put((String) list.get(i), list.get(i + 1));
        }
        return map;
    }

    static boolean allowed(Map<String, Object> answer) {
        return answer.get("allowed").equals(1L);
    }

    public static void main(String[] args) throws IOException {
        socket = new Socket("127.0.0.1", Integer.parseInt(args[0]));
        socket.setTcpNoDelay(true);
        in = new BufferedReader(new InputStreamReader(socket.getInputStream(), StandardCharsets.UTF_8));

        // Tokens: the third request of an hour is denied, unless one gives its token back.
        var user = "user:java/resp";
        var grant = call("WEIR.TAKE", user);
        System.out.println("allowed");
        var done = call("WEIR.SETTLE", user, (String) grant.get("request_id"), "0"); // the true cost
        System.out.println("settled " + done.get("was") + " " + done.get("charged"));
        for (int i = 0; i < 3; i++) {
            var answer = call("WEIR.TAKE", user);
            System.out.println(allowed(answer) ? "allowed" : "denied " + answer.get("reason"));
        }

        // A request that waits for its turn, for ten seconds at most. Later commands on its connection wait for it.
        var late = "late:java/resp";
        call("WEIR.TAKE", late);
        var waited = call("WEIR.WAIT", late, "TIMEOUT", "10s");
        System.out.println("granted " + ((Long) waited.get("waited_ms") > 0 ? "after a wait" : "at once"));

        // A lease bounds the work in flight.
        var job = "job:java/resp";
        var lease = (String) call("WEIR.LEASE", job, "TTL", "10s").get("lease_id");
        System.out.println("leased");
        System.out.println("refused " + call("WEIR.LEASE", job).get("reason"));
        call("WEIR.RENEW", job, lease, "TTL", "20s");
        System.out.println("renewed");
        command("WEIR.RELEASE", job, lease, "success");
        System.out.println("returned");
    }
}

//go:build system

package external

import (
	"encoding/json"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/testrig"

	"github.com/weir-go/weir/service/internal/transport/respapi/resptest"
)

// serveRESP serves clients of Redis, with tokens or without, and returns its port.
func serveRESP(t *testing.T, tokens bool) (port string) {
	t.Helper()
	_, port, err := net.SplitHostPort(resptest.Serve(t, tokens))
	testrig.Must(t, err)
	return port
}

// clients returns the directory of a client that make need has installed.
func clients(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.Command("go", "env", "GOPATH").Output()
	testrig.Must(t, err)
	return filepath.Join(strings.TrimSpace(string(path)), "clients", name)
}

// throttled checks the replies of a client, as JSON.
func throttled(t *testing.T, client string, began time.Time, out string) {
	t.Helper()
	var got [][]int64
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatalf("%s: %v: %s", client, err, out)
	}
	resptest.Check(t, client, began, got)
}

func TestRedisCLI(t *testing.T) {
	for _, flags := range [][]string{nil, {"-3"}, {"--pass", resptest.Secret, "--no-auth-warning"}, {"-3", "--user", "any", "--pass", resptest.Secret, "--no-auth-warning"}} {
		port, began := serveRESP(t, len(flags) > 1), time.Now()
		args := append([]string{"-p", port, "--json"}, flags...)
		out := []string{strings.TrimSpace(run(t, "redis-cli", append(args, "CL.THROTTLE", "user123", "15", "30", "60")...))}
		for range 7 {
			out = append(out, strings.TrimSpace(run(t, "redis-cli", append(args, "CL.THROTTLE", "piped", "4", "1", "60")...)))
		}
		throttled(t, "redis-cli", began, "["+strings.Join(out, ",")+"]")
	}
	if out := run(t, "redis-benchmark", "-p", serveRESP(t, false), "-n", "1000", "-P", "16", "-q", "CL.THROTTLE", "a", "15", "30", "60"); !strings.Contains(out, "requests per second") {
		t.Error(out)
	}
}

const redisPy = `
import json, redis, sys
for options in ({}, {"protocol": 2}, {"protocol": 3}):
    for password in sys.argv[2:] or [None]:
        r = redis.Redis(port=int(sys.argv[1]), password=password, **options)
        n = len(options) and options["protocol"]
        replies = [r.execute_command("CL.THROTTLE", f"user123 {n}", 15, 30, 60)]
        with r.pipeline(transaction=False) as p:
            for _ in range(7):
                p.execute_command("CL.THROTTLE", f"piped {n}", 4, 1, 60)
            replies += p.execute()
        assert r.ping()
        print(json.dumps(replies))
`

func TestRedisPy(t *testing.T) {
	python := filepath.Join(clients(t, "redis"), "bin", "python")
	for _, args := range [][]string{{serveRESP(t, false)}, {serveRESP(t, true), resptest.Secret}} {
		began := time.Now()
		for line := range strings.Lines(run(t, python, append([]string{"-c", redisPy}, args...)...)) {
			throttled(t, "redis-py", began, line)
		}
	}
}

const ioRedis = `
const Redis = require(process.argv[1] + "/node_modules/ioredis");
(async () => {
	const r = new Redis({port: +process.argv[2], password: process.argv[3]});
	const replies = [await r.call("CL.THROTTLE", "user123", 15, 30, 60)];
	const pipeline = r.pipeline();
	for (let i = 0; i < 7; i++) pipeline.call("CL.THROTTLE", "piped", 4, 1, 60);
	for (const [err, reply] of await pipeline.exec()) {
		if (err) throw err;
		replies.push(reply);
	}
	console.log(JSON.stringify(replies));
	await r.quit();
})().catch(err => { console.error(err); process.exit(1); });
`

func TestIORedis(t *testing.T) {
	for _, args := range [][]string{{serveRESP(t, false)}, {serveRESP(t, true), resptest.Secret}} {
		throttled(t, "ioredis", time.Now(), run(t, "node", append([]string{"-e", ioRedis, clients(t, "ioredis")}, args...)...))
	}
}

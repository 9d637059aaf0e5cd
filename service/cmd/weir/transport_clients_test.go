//go:build system

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-go/weir/service/internal/browser"
)

const clientRules = `rules:
- {name: two, glob: "two:*", rate: 2/h}
- {name: many, glob: "many:*", rate: 1000000/s}
- {name: late, glob: "late:*", rate: 10/s, burst: 1, queue: 100}
- {name: jobs, glob: "job:*", concurrency: {limit: 2, ttl: 60s}}
`

// A step has requests that a client sends at once, over one connection if it speaks HTTP/2.
type step struct {
	Method string   `json:"method"`
	Paths  []string `json:"paths"`
	Body   string   `json:"body"`
	want   []int    // sorted statuses
}

// steps are requests of a client: some are answered at once, others wait, and others are for pages or have a
// large body.
func steps(client string) []step {
	key := func(kind string) string { return "/rate/" + kind + ":" + client }
	late := slices.Repeat([]string{key("late") + "?canWait=true"}, 4)
	batch := `[{"key":"many:0"}` + strings.Repeat(`,{"key":"many:`+client+`"}`, 3000) + "]"
	return []step{
		{"POST", []string{key("two")}, "", []int{200}},
		{"POST", slices.Repeat([]string{key("two")}, 4), "", []int{200, 429, 429, 429}},
		{"POST", append(late, slices.Repeat([]string{key("many")}, 50)...), "", slices.Repeat([]int{200}, 54)},
		{"POST", slices.Repeat([]string{"/rate"}, 3), batch, []int{200, 200, 200}},
		{"POST", slices.Repeat([]string{"/lease/job:" + client}, 3), "", []int{200, 200, 429}},
		{"GET", []string{"/healthz", "/openapi.json", "/missing"}, "", []int{200, 200, 404}},
		{"PUT", []string{key("many")}, "", []int{405}},
		{"POST", []string{"/rate/" + strings.Repeat("k", 2000)}, "", []int{400}},
		{"POST", []string{key("two")}, "", []int{429}},
	}
}

// A wireClient sends steps. It returns the statuses of each, and the versions of HTTP that it has seen.
type wireClient struct {
	name  string
	http2 bool // that it speaks, without TLS too
	send  func(s transported, steps []step) (statuses [][]int, versions []string)
}

// Clients get the same answers from each transport, over cleartext and TLS.
func TestTransportClients(t *testing.T) {
	servers := serveTransports(t, "--rules", file(t, "rules.yaml", clientRules))
	for _, client := range []wireClient{
		{"curl http2", true, func(s transported, steps []step) ([][]int, []string) { return s.curl("--http2-prior-knowledge", steps) }},
		{"curl upgrade", false, func(s transported, steps []step) ([][]int, []string) { return s.curl("--http2", steps) }},
		{"curl http1", false, func(s transported, steps []step) ([][]int, []string) { return s.curl("--http1.1", steps) }},
		{"net/http", true, transported.goClient},
		{"node", true, transported.node},
		{"httpx", true, transported.httpx},
		{"chromium", false, transported.chromium},
	} {
		t.Run(client.name, func(t *testing.T) {
			t.Parallel()
			for _, s := range servers {
				s.t = t
				name := strings.NewReplacer(" ", "", ",", "").Replace(client.name + s.name())
				all := steps(strings.ReplaceAll(name, "/", ""))
				statuses, versions := client.send(s, all)
				if len(statuses) != len(all) {
					t.Fatalf("%s: %d steps: want %d: %v", s.name(), len(statuses), len(all), statuses)
				}
				for i, step := range all {
					slices.Sort(statuses[i])
					if !slices.Equal(statuses[i], step.want) {
						t.Errorf("%s: %s %.60s: %v: want %v", s.name(), step.Method, step.Paths, statuses[i], step.want)
					}
				}
				slices.Sort(versions)
				want := "1.1"
				if client.http2 || s.secure && client.name != "curl http1" {
					want = "2"
				}
				if got := slices.Compact(versions); len(got) != 1 || got[0] != want {
					t.Errorf("%s: HTTP %v: want %s", s.name(), got, want)
				}
			}
		})
	}
}

// curl sends the requests of a step over one connection, if it can.
func (s transported) curl(version string, steps []step) (statuses [][]int, versions []string) {
	s.t.Helper()
	for _, step := range steps {
		args := []string{"--silent", "--show-error", "--noproxy", "*", "--cacert", s.caFile, version, "--request", step.Method}
		if step.Body != "" {
			args = append(args, "--data-binary", "@"+file(s.t, "body", step.Body), "--header", "Content-Type: application/json")
		}
		args = append(args, "--write-out", "%{http_version} %{http_code}\n")
		var out string
		if version == "--http2-prior-knowledge" && !s.secure { // curl 7.88 cannot use such a connection twice
			for _, path := range step.Paths {
				out += s.run("curl", append(args, "--output", "/dev/null", s.public+path)...)
			}
		} else {
			args = append(args, "--parallel", "--parallel-max", "100")
			for _, path := range step.Paths {
				args = append(args, "--output", "/dev/null", s.public+path)
			}
			out = s.run("curl", args...)
		}
		var got []int
		for line := range strings.Lines(out) {
			version, status, _ := strings.Cut(strings.TrimSpace(line), " ")
			n, err := strconv.Atoi(status)
			fatal(s.t, err)
			got, versions = append(got, n), append(versions, version)
		}
		statuses = append(statuses, got)
	}
	return statuses, versions
}

// clientPatience is the longest time that a client may take.
const clientPatience = 2 * time.Minute

// run runs a client, and returns its output.
func (s transported) run(command string, args ...string) string {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), clientPatience)
	defer cancel()
	cmd := exec.CommandContext(ctx, command, args...)
	var out, diagnosis bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &diagnosis
	if err := cmd.Run(); err != nil {
		s.t.Fatalf("%s, %s (make need installs it): %v\n%s%s", s.name(), command, err, &out, &diagnosis)
	}
	return out.String()
}

// goClient is net/http.
func (s transported) goClient(steps []step) (statuses [][]int, versions []string) {
	s.t.Helper()
	transport := &http.Transport{TLSClientConfig: s.ca.config(s.t, nil), Protocols: new(http.Protocols)}
	transport.Protocols.SetHTTP2(true)
	transport.Protocols.SetUnencryptedHTTP2(true)
	client := &http.Client{Transport: transport, Timeout: time.Minute}
	defer client.CloseIdleConnections()
	var mu sync.Mutex // guards what follows
	for _, step := range steps {
		var got []int
		var sending sync.WaitGroup
		for _, path := range step.Paths {
			sending.Go(func() {
				status, version, err := s.goRequest(client, step, path)
				mu.Lock()
				defer mu.Unlock()
				if got, versions = append(got, status), append(versions, version); err != nil {
					s.t.Error(err)
				}
			})
		}
		sending.Wait()
		statuses = append(statuses, got)
	}
	return statuses, versions
}

func (s transported) goRequest(client *http.Client, step step, path string) (status int, version string, err error) {
	r, err := http.NewRequest(step.Method, s.public+path, strings.NewReader(step.Body))
	if err != nil {
		return 0, "", err
	}
	resp, err := client.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return 0, "", err
	}
	return resp.StatusCode, strings.TrimSuffix(strings.TrimPrefix(resp.Proto, "HTTP/"), ".0"), nil
}

// script sends steps by a program with the arguments URL, file of the authority, and file of the steps. It prints the
// statuses as JSON.
func (s transported) script(command string, args []string, steps []step) (statuses [][]int, versions []string) {
	s.t.Helper()
	text, err := json.Marshal(steps)
	fatal(s.t, err)
	out := s.run(command, append(args, s.public, s.caFile, file(s.t, "steps.json", string(text)))...)
	var answer struct {
		Statuses [][]int
		Versions []string
	}
	if err := json.Unmarshal([]byte(out), &answer); err != nil {
		s.t.Fatalf("%s: %v: %s", command, err, out)
	}
	return answer.Statuses, answer.Versions
}

const nodeScript = `
const http2 = require("http2"), fs = require("fs");
const [url, ca, file] = process.argv.slice(1);
const session = http2.connect(url, {ca: fs.readFileSync(ca)});
const one = (method, path, body) => new Promise((done, failed) => {
	const stream = session.request({":method": method, ":path": path}, {endStream: !body});
	let status;
	stream.on("response", headers => { status = headers[":status"]; });
	stream.on("data", () => {});
	stream.on("end", () => done(status));
	stream.on("error", failed);
	if (body) stream.end(body);
});
(async () => {
	const statuses = [];
	for (const step of JSON.parse(fs.readFileSync(file)))
		statuses.push(await Promise.all(step.paths.map(path => one(step.method, path, step.body))));
	await new Promise((done, failed) => session.ping(err => err ? failed(err) : done()));
	console.log(JSON.stringify({statuses, versions: ["2"]}));
	session.close();
})().catch(err => { console.error(err); process.exit(1); });
`

// node is module http2 of Node.
func (s transported) node(steps []step) ([][]int, []string) {
	return s.script("node", []string{"-e", nodeScript}, steps)
}

const httpxScript = `
import asyncio, httpx, json, ssl, sys
url, ca, file = sys.argv[1:]
async def main():
    async with httpx.AsyncClient(http1=False, http2=True, verify=ssl.create_default_context(cafile=ca), timeout=60, trust_env=False) as client:
        def send(step, path):
            request = client.build_request(step["method"], url + path, content=step["body"] or None)
            if not step["body"]: # otherwise httpx sends an empty body, and fails if the answer comes before it has
                request.headers.pop("Content-Length", None)
            return client.send(request)
        statuses, versions = [], set()
        for step in json.load(open(file)):
            answers = await asyncio.gather(*(send(step, path) for path in step["paths"]))
            statuses.append([a.status_code for a in answers])
            versions |= {a.http_version for a in answers}
    print(json.dumps({"statuses": statuses, "versions": [v.removeprefix("HTTP/") for v in versions]}))
asyncio.run(main())
`

// httpx is a client of Python.
func (s transported) httpx(steps []step) ([][]int, []string) {
	return s.script(filepath.Join(clientDir(s.t, "httpx"), "bin", "python"), []string{"-c", httpxScript}, steps)
}

// chromium sends requests from a page of the server.
func (s transported) chromium(steps []step) (statuses [][]int, versions []string) {
	s.t.Helper()
	tab := browser.OpenUntrusted(s.t, s.public+"/healthz", 800, 600)
	tab.Expect("the server responded with a status of 4") // also after the answers
	text, err := json.Marshal(steps)
	fatal(s.t, err)
	browser.Evaluate[bool](tab, fmt.Sprintf(`window.seen = "", (async () => {
		const statuses = [];
		for (const step of %s)
			statuses.push(await Promise.all(step.paths.map(async path => {
				const answer = await fetch(path, {method: step.method, body: step.body || undefined, headers: {"Content-Type": "application/json"}});
				await answer.arrayBuffer();
				return answer.status;
			})));
		const versions = performance.getEntriesByType("resource").map(e => e.nextHopProtocol.replace("h2", "2").replace("http/", ""));
		return JSON.stringify({statuses, versions});
	})().catch(String).then(seen => { window.seen = seen }), true`, text))
	seen := ""
	tab.Until("the script has its answers", func() bool {
		seen = browser.Evaluate[string](tab, `window.seen`)
		return seen != ""
	})
	var answer struct {
		Statuses [][]int
		Versions []string
	}
	if err := json.Unmarshal([]byte(seen), &answer); err != nil {
		s.t.Fatalf("%v: %s", err, seen)
	}
	return answer.Statuses, answer.Versions
}

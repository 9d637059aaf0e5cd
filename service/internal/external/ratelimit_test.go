//go:build system

package external

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/testrig"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	envoytype "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/descriptor"
	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/transport/grpcapi"
)

var differential = flag.Int("differential", 10_000, "random requests that are sent to weir and to envoyproxy/ratelimit")

var checkout = flag.String("reference", "", "a directory with a checkout of envoyproxy/ratelimit of July 2026 or later, which is built and compared with instead of the version that make installs")

// reference is the version that make installs. It lacks patterns with * before the end, and
// quotas that deny together: without a checkout, no file has them.
const reference = "github.com/envoyproxy/ratelimit@v1.4.1-0.20260122083618-3fb702589d36"

// With fixed windows, weir answers as envoyproxy/ratelimit does, by its own example files and
// by random ones.
func TestRateLimitReference(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "ratelimit", "config")
	testrig.Must(t, os.MkdirAll(dir, 0o700))
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(1, seed))
	domains := exampleDomains(t, dir)
	for i := range 30 {
		domains = append(domains, writeDomain(t, dir, r, fmt.Sprintf("random%d", i)))
	}
	rules, err := config.LoadWith(dir, config.RateLimitOptions{Algorithm: config.FixedWindow})
	testrig.Must(t, err)
	theirs, ours := startReference(t, root), startWeir(t, rules)
	counters, differences := counters{rules: rules, units: map[string]time.Duration{}}, 0
	for i := range *differential {
		awayFromEnds(t)
		before, request := time.Now(), randomRequest(r, domains)
		for !counters.apart(request, before) {
			request = randomRequest(r, domains)
		}
		want, wantErr := theirs.ShouldRateLimit(t.Context(), request)
		got, gotErr := ours.ShouldRateLimit(t.Context(), request)
		if time.Now().Unix() != before.Unix() { // they may have counted in different windows
			time.Sleep(time.Until(nextMinute(before)))
			continue
		}
		if (gotErr == nil) != (wantErr == nil) || !proto.Equal(got, want) {
			t.Errorf("request %d: %s\n got %s %v\nwant %s %v", i, prototext.Format(request), prototext.Format(got), gotErr, prototext.Format(want), wantErr)
			if differences++; differences == 5 {
				t.FailNow()
			}
		}
	}
}

// awayFromEnds waits until no window ends soon.
func awayFromEnds(t *testing.T) {
	t.Helper()
	const guard = 30 * time.Millisecond
	if left := time.Second - time.Duration(time.Now().UnixNano())%time.Second; left < guard {
		time.Sleep(left + time.Millisecond)
	}
}

func nextMinute(now time.Time) time.Time { return now.Truncate(time.Minute).Add(time.Minute) }

// A domain is the name of a domain and pieces of descriptors that match in it.
type domain struct {
	name  string
	paths [][]*common.RateLimitDescriptor_Entry
}

// exampleDomains copies the example files of the reference to a directory.
func exampleDomains(t *testing.T, dir string) (domains []domain) {
	module := struct{ Dir string }{*checkout}
	if *checkout == "" {
		testrig.Must(t, json.Unmarshal([]byte(run(t, "go", "mod", "download", "-json", reference)), &module))
	}
	for _, pattern := range []string{"examples/ratelimit/config/*.yaml", "test/integration/runtime/current/ratelimit/config/*.yaml"} {
		files, err := filepath.Glob(filepath.Join(module.Dir, pattern))
		if err != nil || len(files) < 2 {
			t.Fatalf("%s: %q, %v", pattern, files, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err == nil {
				err = os.WriteFile(filepath.Join(dir, filepath.Base(file)), text, 0o600)
			}
			testrig.Must(t, err)
			domains = append(domains, domainOf(t, file))
		}
	}
	return domains
}

// domainOf returns the domain of a file, with the paths to its limits.
func domainOf(t *testing.T, file string) domain {
	rules, err := config.Load(file)
	testrig.Must(t, err)
	var d domain
	for _, r := range rules.Rules {
		name, entries := pathOf(r.Descriptor.Path)
		d.name, d.paths = name, append(d.paths, entries)
	}
	return d
}

// pathOf reads a path of a rule; those of the files here have nothing that is escaped.
func pathOf(path string) (name string, entries []*common.RateLimitDescriptor_Entry) {
	name, rest, _ := strings.Cut(path, "|")
	for part := range strings.SplitSeq(rest, "|") {
		key, value, _ := strings.Cut(part, "=")
		entries = append(entries, &common.RateLimitDescriptor_Entry{Key: key, Value: value})
	}
	return name, entries
}

// writeDomain writes a random file.
func writeDomain(t *testing.T, dir string, r *rand.Rand, name string) domain {
	var b strings.Builder
	fmt.Fprintf(&b, "domain: %s\ndescriptors:\n", name)
	names := 0
	writeLevel(&b, r, "", 1+r.IntN(3), &names)
	file := filepath.Join(dir, name+".yaml")
	testrig.Must(t, os.WriteFile(file, []byte(b.String()), 0o600))
	return domainOf(t, file)
}

// writeLevel writes descriptors with limits; names counts the limits.
func writeLevel(b *strings.Builder, r *rand.Rand, indent string, depth int, names *int) {
	values, flags := []string{"", "", "x", "y", "xy", "x*", "*", "y*"}, []string{"shadow_mode", "detailed_metric", "value_to_metric"}
	if *checkout != "" {
		values, flags = append(values, "*y", "x*y", "*x*", "x*z*"), append(flags, "quota_mode")
	}
	seen := map[string]bool{}
	for range 2 + r.IntN(4) {
		key, value := pick(r, "a", "b", "c"), pick(r, values...)
		if seen[key+value] {
			continue
		}
		seen[key+value] = true
		fmt.Fprintf(b, "%s- key: %s\n", indent, key)
		if value != "" {
			fmt.Fprintf(b, "%s  value: %q\n", indent, value)
		}
		for _, flag := range flags {
			if r.IntN(6) == 0 {
				fmt.Fprintf(b, "%s  %s: true\n", indent, flag)
			}
		}
		if strings.Contains(value, "*") && r.IntN(2) == 0 {
			fmt.Fprintf(b, "%s  share_threshold: true\n", indent)
		}
		switch r.IntN(8) {
		case 0: // no limit
		case 1:
			fmt.Fprintf(b, "%s  rate_limit: {unlimited: true}\n", indent)
		default:
			*names++
			replaces := ""
			if r.IntN(6) == 0 && *names > 1 {
				replaces = fmt.Sprintf(", replaces: [{name: n%d}]", 1+r.IntN(*names-1))
			}
			fmt.Fprintf(b, "%s  rate_limit: {name: n%d, unit: %s, requests_per_unit: %d%s}\n", indent, *names,
				pick(r, "second", "MINUTE", "hour", "day", "week", "month", "year"), r.IntN(12), replaces)
		}
		if depth > 1 && r.IntN(2) == 0 {
			fmt.Fprintf(b, "%s  descriptors:\n", indent)
			writeLevel(b, r, indent+"  ", depth-1, names)
		}
	}
}

func pick(r *rand.Rand, texts ...string) string { return texts[r.IntN(len(texts))] }

// randomRequest returns a request that often matches a limit.
func randomRequest(r *rand.Rand, domains []domain) *rls.RateLimitRequest {
	d := domains[r.IntN(len(domains))]
	request := &rls.RateLimitRequest{Domain: d.name, HitsAddend: uint32(r.IntN(4))}
	switch r.IntN(50) {
	case 0:
		request.Domain = "unknown"
	case 1:
		request.Domain = ""
	}
	for range r.IntN(4) + 1 {
		var descriptor common.RateLimitDescriptor
		if len(d.paths) > 0 {
			for _, e := range d.paths[r.IntN(len(d.paths))] {
				e = proto.Clone(e).(*common.RateLimitDescriptor_Entry)
				if r.IntN(5) > 0 {
					e.Value = strings.ReplaceAll(e.Value, "*", pick(r, "", "x", "z", "/1"))
				}
				if e.Value == "" || r.IntN(10) == 0 {
					e.Value = pick(r, "", "x", "xy", "q")
				}
				descriptor.Entries = append(descriptor.Entries, e)
			}
		}
		if r.IntN(10) == 0 {
			descriptor.Entries = append(descriptor.Entries, &common.RateLimitDescriptor_Entry{Key: pick(r, "a", "d"), Value: "x"})
		}
		if r.IntN(4) == 0 {
			descriptor.HitsAddend = wrapperspb.UInt64(r.Uint64N(5))
		}
		if r.IntN(3) == 0 {
			descriptor.Limit = randomOverride(r, request.Domain)
		}
		request.Descriptors = append(request.Descriptors, &descriptor)
	}
	if r.IntN(100) == 0 {
		request.Descriptors = nil
	}
	return request
}

// randomOverride returns a limit that a descriptor of a domain brings.
func randomOverride(r *rand.Rand, domain string) *common.RateLimitDescriptor_RateLimitOverride {
	o := &common.RateLimitDescriptor_RateLimitOverride{
		RequestsPerUnit: uint32(r.IntN(12)), Unit: envoytype.RateLimitUnit(1 + r.IntN(len(config.RateUnits)-1)),
	}
	if r.IntN(10) == 0 {
		o.RequestsPerUnit = math.MaxUint32
	}
	if r.IntN(10) == 0 {
		o.UnitMultiplier = wrapperspb.UInt32(uint32(r.IntN(3)))
	}
	if domain == "unknown" && r.IntN(4) == 0 { // in a known one, it ends the reference
		o.Unit = envoytype.RateLimitUnit_UNKNOWN
	}
	return o
}

// counters are the counters of the reference, by their names: a descriptor, and the second in
// which a window begins. Windows of two units that begin in the same second have one counter
// there, and two in weir.
type counters struct {
	rules *config.Rules
	units map[string]time.Duration
}

// apart reports whether a request counts in counters that have only been used for one unit
// each, so that the answers must be the same.
func (c *counters) apart(request *rls.RateLimitRequest, now time.Time) bool {
	for _, d := range request.Descriptors {
		var entries []descriptor.Entry
		for _, e := range d.Entries {
			entries = append(entries, descriptor.Entry{Key: e.Key, Value: e.Value})
		}
		var unit time.Duration
		at, known := c.rules.Descriptors.Find(request.Domain, entries)
		switch {
		case !known:
			continue
		case d.Limit != nil:
			unit = config.RateUnits[d.Limit.Unit]
		case at == descriptor.None || !c.rules.Rules[at].Rated():
			continue
		default:
			unit = c.rules.Rules[at].Rate.Period
			for i, share := range c.rules.Rules[at].Descriptor.Shares {
				if share != "" {
					entries[i].Value = share
				}
			}
		}
		seconds := int64(unit / time.Second)
		name := fmt.Sprint(string(descriptor.Append(nil, request.Domain, entries)), " ", now.Unix()/seconds*seconds)
		if was := c.units[name]; was > 0 && was != unit {
			return false
		}
		c.units[name] = unit
	}
	return true
}

// startReference runs envoyproxy/ratelimit with a Redis.
func startReference(t *testing.T, root string) rls.RateLimitServiceClient {
	program := "service_cmd"
	if *checkout != "" {
		program = filepath.Join(t.TempDir(), program)
		run(t, "go", "build", "-C", *checkout, "-o", program, "./src/service_cmd")
	}
	redis := freePort(t)
	start(t, nil, "redis-server", "--port", redis, "--bind", "127.0.0.1", "--save", "", "--dir", t.TempDir())
	waitFor(t, redis)
	port := freePort(t)
	start(t, []string{
		"RUNTIME_ROOT=" + root, "RUNTIME_SUBDIRECTORY=ratelimit", "RUNTIME_WATCH_ROOT=false", "USE_STATSD=false", "LOG_LEVEL=error",
		"REDIS_SOCKET_TYPE=tcp", "REDIS_URL=127.0.0.1:" + redis, "GRPC_HOST=127.0.0.1", "GRPC_PORT=" + port,
		"HOST=127.0.0.1", "PORT=" + freePort(t), "DEBUG_HOST=127.0.0.1", "DEBUG_PORT=" + freePort(t), "LIMIT_RESPONSE_HEADERS_ENABLED=true",
	}, program)
	waitFor(t, port)
	return dial(t, port)
}

// startWeir serves the same rules in this process.
func startWeir(t *testing.T, rules *config.Rules) rls.RateLimitServiceClient {
	s, err := server.New(server.Config{Rules: rules, Memory: 1 << 30}) // enough for exact counts of all keys
	testrig.Must(t, err)
	api, err := grpcapi.New(s, grpcapi.Config{Headers: true, LimitHeader: "RateLimit-Limit", RemainingHeader: "RateLimit-Remaining", ResetHeader: "RateLimit-Reset"})
	testrig.Must(t, err)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	testrig.Must(t, err)
	srv := api.NewServer()
	go func() { _ = srv.Serve(ln) }()
	t.Cleanup(srv.Stop)
	_, port, _ := net.SplitHostPort(ln.Addr().String())
	return dial(t, port)
}

func dial(t *testing.T, port string) rls.RateLimitServiceClient {
	conn, err := grpc.NewClient("passthrough:127.0.0.1:"+port, grpc.WithTransportCredentials(insecure.NewCredentials()))
	testrig.Must(t, err)
	t.Cleanup(func() { conn.Close() })
	return rls.NewRateLimitServiceClient(conn)
}

// start runs a program, with variables besides those of the test, until the test ends.
func start(t *testing.T, env []string, name string, args ...string) *exec.Cmd {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatalf("no %s found: make need installs it, or says how: %v", name, err)
	}
	log, err := os.Create(filepath.Join(t.TempDir(), filepath.Base(name)+".log"))
	testrig.Must(t, err)
	cmd := exec.Command(path, args...)
	cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), env...), log, log
	testrig.Must(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if log.Close(); t.Failed() {
			text, _ := os.ReadFile(log.Name())
			t.Logf("%s: %s", name, text[max(len(text)-4000, 0):])
		}
	})
	return cmd
}

func freePort(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	testrig.Must(t, err)
	defer ln.Close()
	_, port, _ := net.SplitHostPort(ln.Addr().String())
	return port
}

// waitFor waits until a port of this machine is open.
func waitFor(t *testing.T, port string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for ctx.Err() == nil {
		if conn, err := net.Dial("tcp", "127.0.0.1:"+port); err == nil {
			conn.Close()
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatalf("nothing listens at port %s", port)
}

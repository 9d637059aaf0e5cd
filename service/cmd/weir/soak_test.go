//go:build system

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	library "github.com/weir-go/weir"
	"github.com/weir-go/weir/client"
)

var soakTime = flag.Duration("soak", 2*time.Second, "how long TestSoak puts load on")

const (
	soakHolders = 4  // of the leases of one key
	soakDaily   = 50 // tokens of one key a day
)

// A soak is a server and a proxy under every kind of load that there is.
type soak struct {
	*testing.T
	server *served
	proxy  string // URL
	origin *httptest.Server
	rules  *mountedRules
	h1, h2 *http.Client

	held  atomic.Int64     // leases of the key slots
	daily atomic.Int64     // tokens of the key daily
	done  [15]atomic.Int64 // acts by kind
}

// Everything at once: decisions, batches, waits, leases and settlements over HTTP/1.1 and
// HTTP/2, clients that leave in the middle, reloads, scrapes, and a proxy with slow and
// absent readers. In between, limits hold; in the end, goroutines, descriptors and
// the heap are back at their start. Half an hour of it:
//
//	go test -race -tags system -run TestSoak ./cmd/weir -soak 30m -timeout 40m
func TestSoak(t *testing.T) {
	s := &soak{T: t, rules: &mountedRules{dir: t.TempDir()}, h1: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}}
	cleartext2 := &http.Transport{Protocols: new(http.Protocols)}
	cleartext2.Protocols.SetUnencryptedHTTP2(true)
	s.h2 = &http.Client{Transport: cleartext2}
	fatal(t, s.rules.write(soakRules(0), true))
	s.server = serving(t, "--rules", filepath.Join(s.rules.dir, "rules.yaml"), "--memory", "4MiB",
		"--state", filepath.Join(t.TempDir(), "state"), "--state-interval", "1s", "--max-waiting", "500", "--log4xx", "--log2xx")
	s.origin = httptest.NewServer(http.HandlerFunc(soakOrigin))
	defer s.origin.Close()
	end := s.startProxy()

	if *soakTime > time.Minute {
		s.fill() // the memory for keys is bounded, but takes minutes to fill
	}
	s.load(time.Second) // fills pools, pages and caches
	before := s.rest()
	s.load(*soakTime)
	after := s.rest()
	var acts []int64
	for i := range s.done {
		acts = append(acts, s.done[i].Load())
	}
	t.Logf("%v of load, acts by kind %v; before it %v, after it %v", *soakTime, acts, before, after)
	if after.goroutines > before.goroutines+5 {
		var stacks [1 << 20]byte
		t.Errorf("%d goroutines, %d before:\n%s", after.goroutines, before.goroutines, stacks[:runtime.Stack(stacks[:], true)])
	}
	if after.files > before.files+5 {
		t.Errorf("%d descriptors, %d before", after.files, before.files)
	}
	if after.heap > before.heap+16<<20 {
		t.Errorf("a heap of %d MiB, %d MiB before", after.heap>>20, before.heap>>20)
	}
	end()
	s.server.end()
}

// soakRules returns the ith version of rules that differ in what does not matter here.
func soakRules(i int) string {
	return fmt.Sprintf(`rules:
  - {name: extra, glob: "extra%d:*", rate: 5/s}
  - {name: daily, key: daily, rate: %d/d, queue: %d}
  - {name: slots, key: slots, concurrency: {limit: %d, ttl: 20s, queue: 100, max_wait: 10s}}
  - {name: found, key: found, concurrency: {limit: auto, ttl: 20s, queue: 100, max_wait: 10s}}
  - {name: line, key: line, rate: 200/s, queue: 50, max_wait: 2s}
  - {name: trial, glob: "trial:*", rate: 10/s, candidate: {rate: %d/s}}
  - {name: watched, glob: "watched:*", rate: 1/s, mode: shadow}
  - {name: windows, glob: "w:*", rate: 10/s, algorithm: sliding}
  - {name: rest, glob: "*", rate: 10/s}
`, i, soakDaily, i%7, soakHolders, 5+i%3)
}

func soakOrigin(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	switch rand.IntN(10) {
	case 0:
		w.WriteHeader(http.StatusServiceUnavailable)
	case 1:
		select {
		case <-r.Context().Done():
		case <-time.After(50 * time.Millisecond):
		}
	case 2:
		panic(http.ErrAbortHandler)
	case 3:
		_, _ = w.Write(make([]byte, 1<<20))
	default:
		_, _ = io.WriteString(w, "done")
	}
}

func (s *soak) startProxy() (end func()) {
	ctx, stop := context.WithCancel(context.Background())
	out, in := io.Pipe()
	log := make(chan string, 1)
	ended := make(chan int, 1)
	go func() {
		text := make([]byte, 4096)
		n, _ := out.Read(text)
		log <- string(text[:n])
		_, _ = io.Copy(io.Discard, out)
	}()
	go func() {
		ended <- program.Run(ctx, []string{
			"proxy", "--origin", s.origin.URL, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0",
			"--max-wait", "100ms", "--timeout", "2s", "--abandoned-hold", "1s", "--client-timeout", "2s",
		}, io.Discard, in)
		in.Close()
	}()
	_, rest, found := strings.Cut(<-log, "listen=")
	if !found {
		s.Fatalf("the proxy has not started: exit status %d", <-ended)
	}
	s.proxy, _, _ = strings.Cut(rest, " ")
	return func() {
		stop()
		if code := <-ended; code != 0 {
			s.Errorf("the proxy's exit status is %d", code)
		}
	}
}

// load puts load on for d, and returns when all of it has ended.
func (s *soak) load(d time.Duration) {
	ctx, stop := context.WithTimeout(context.Background(), d)
	defer stop()
	c, err := client.New(client.Config{URL: s.server.public, Timeout: 30 * time.Second, TTL: 20 * time.Second, Away: client.Deny})
	fatal(s.T, err)
	actors := []func(context.Context, int){
		s.decide, s.decide, s.batch, s.wait, s.leave, s.settle, s.spend, s.half, s.scrape, s.reload, s.stream, s.through, s.turnAway,
		func(ctx context.Context, _ int) { s.hold(ctx, c, "slots", &s.held) },
		func(ctx context.Context, _ int) { s.hold(ctx, c, "found", nil) },
	}
	var all sync.WaitGroup
	for kind, act := range actors {
		for range soakHolders + 2 {
			all.Go(func() {
				for i := 0; ctx.Err() == nil && !s.Failed(); i++ {
					act(ctx, i)
					s.done[kind].Add(1)
				}
			})
		}
	}
	all.Wait()
	fatal(s.T, c.Close())
	for kind := range actors {
		if s.done[kind].Load() == 0 {
			s.Errorf("actor %d has done nothing", kind)
		}
	}
}

// ask sends a request, and checks that the status of the answer is one of may.
func (s *soak) ask(ctx context.Context, h *http.Client, method, url, body string, may ...int) (status int, text string) {
	status, text, err := s.try(ctx, h, method, url, body)
	if err != nil {
		if ctx.Err() == nil {
			s.Errorf("%s %s: %v", method, url, err)
		}
		return 0, ""
	}
	for _, m := range may {
		if status == m {
			return status, text
		}
	}
	s.Errorf("%s %s: %d %s: want one of %v", method, url, status, text, may)
	return status, text
}

func (s *soak) try(ctx context.Context, h *http.Client, method, url, body string) (status int, text string, err error) {
	r, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	resp, err := h.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	all, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(all), err
}

func (s *soak) client(i int) *http.Client {
	if i%2 == 0 {
		return s.h1
	}
	return s.h2
}

var soakKinds = []string{"k:", "trial:", "watched:", "w:", "extra3:"}

const soakKeys = 200_000 // of each kind

func soakKey() string { return fmt.Sprint(soakKinds[rand.IntN(len(soakKinds))], rand.IntN(soakKeys)) }

// fill asks for every key once.
func (s *soak) fill() {
	const batch = 10_000
	for _, kind := range soakKinds {
		for first := 0; first < soakKeys && !s.Failed(); first += batch {
			all := make([]string, batch)
			for n := range all {
				all[n] = fmt.Sprintf(`{"key":"%s%d"}`, kind, first+n)
			}
			s.ask(s.Context(), s.h1, "POST", s.server.public+"/rate", "["+strings.Join(all, ",")+"]", 200, 429)
		}
	}
}

func (s *soak) decide(ctx context.Context, i int) {
	s.ask(ctx, s.client(i), "POST", s.server.public+"/rate/"+soakKey()+"?n="+fmt.Sprint(i%4), "", 200, 429)
}

func (s *soak) batch(ctx context.Context, i int) {
	all := make([]string, 100)
	for n := range all {
		all[n] = fmt.Sprintf(`{"key":%q,"n":%d}`, soakKey(), n%3)
	}
	s.ask(ctx, s.client(i), "POST", s.server.public+fmt.Sprintf("/rate?all=%v", i%3 == 0), "["+strings.Join(all, ",")+"]", 200, 429)
}

func (s *soak) wait(ctx context.Context, i int) {
	s.ask(ctx, s.client(i), "POST", s.server.public+"/rate/line?canWait=true&timeout=1s", "", 200, 429)
}

// leave waits, and is gone before its turn.
func (s *soak) leave(ctx context.Context, i int) {
	ctx, stop := context.WithTimeout(ctx, time.Duration(rand.IntN(20))*time.Millisecond)
	defer stop()
	path := []string{"/rate/line?canWait=true&n=5", "/lease/slots?canWait=true&ttl=1s"}[i%2]
	_, _, _ = s.try(ctx, s.client(i/2), "POST", s.server.public+path, "")
}

// settle takes tokens, and reports another cost, or gives them back.
func (s *soak) settle(ctx context.Context, i int) {
	h, url := s.client(i), s.server.public+"/rate/"+soakKey()
	status, text := s.ask(ctx, h, "POST", url+"?n=3", "", 200, 429)
	if status != 200 {
		return
	}
	_, rest, _ := strings.Cut(text, `"request_id":"`)
	id, _, found := strings.Cut(rest, `"`)
	if !found {
		s.Errorf("%s: there is no request_id", text)
		return
	}
	if i%3 == 0 {
		s.ask(ctx, h, "DELETE", url+"/"+id, "", 200, 204, 404, 410)
	} else {
		s.ask(ctx, h, "POST", url+"/"+id+"?n=1", "", 200, 204, 404, 410)
	}
}

// spend takes tokens that do not come back today.
func (s *soak) spend(ctx context.Context, i int) {
	if status, _ := s.ask(ctx, s.client(i), "POST", s.server.public+"/rate/daily", "", 200, 429); status == 200 && s.daily.Add(1) > soakDaily {
		s.Errorf("%d tokens of a day's %d", s.daily.Load(), soakDaily)
	}
}

// hold leases a unit. At most soakHolders may do so at the same time.
func (s *soak) hold(ctx context.Context, c *client.Client, key string, held *atomic.Int64) {
	p, err := c.Lease(key).Acquire(ctx, 1)
	if err != nil {
		if !errors.Is(err, library.ErrRejected) && ctx.Err() == nil {
			s.Error(err)
		}
		return
	}
	if held != nil {
		if n := held.Add(1); n > soakHolders {
			s.Errorf("%d leases are held: want at most %d", n, soakHolders)
		}
	}
	time.Sleep(time.Duration(rand.IntN(5)) * time.Millisecond)
	if held != nil {
		held.Add(-1) // before the release, after which another may hold the unit
	}
	p.Release([]library.Outcome{library.Success, library.Dropped, library.Ignored}[rand.IntN(3)])
}

// half sends parts of requests, and leaves.
func (s *soak) half(ctx context.Context, i int) {
	for _, url := range []string{s.server.public, s.proxy} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
		if err != nil {
			s.Error(err)
			return
		}
		_, _ = io.WriteString(conn, []string{halfHeader, halfBody, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04", "\x16\x03\x01\x02", "\r\n"}[i%5])
		pause(ctx, time.Duration(rand.IntN(20))*time.Millisecond)
		conn.Close()
	}
}

func (s *soak) scrape(ctx context.Context, i int) {
	pages := []string{"/metrics", "/-/status", "/-/top", "/-/ready", "/-/explain?key=k:1", "/"}
	s.ask(ctx, s.h1, "GET", s.server.admin+pages[i%len(pages)], "", 200, 503)
	if i%20 == 0 {
		s.ask(ctx, s.h1, "GET", s.server.public+"/debug", "", 200, 503)
	}
	pause(ctx, 10*time.Millisecond)
}

var soakVersion atomic.Int64
var soakWriting sync.Mutex

func (s *soak) reload(ctx context.Context, i int) {
	text, want := soakRules(int(soakVersion.Add(1))%1000), 200
	if i%5 == 4 {
		text, want = text+"  - {name: daily, rate: 1/s}\n", 422
	}
	soakWriting.Lock()
	defer soakWriting.Unlock()
	if err := s.rules.write(text, i%2 == 0); err != nil {
		s.Error(err)
	}
	s.ask(ctx, s.h1, "POST", s.server.admin+"/-/reload", "", want)
	pause(ctx, 20*time.Millisecond)
}

// stream begins a batch that it does not end.
func (s *soak) stream(ctx context.Context, i int) {
	ctx, stop := context.WithTimeout(ctx, time.Duration(rand.IntN(30))*time.Millisecond)
	defer stop()
	body, more := io.Pipe()
	go func() {
		for n := 0; ; n++ {
			if _, err := fmt.Fprintf(more, "{\"key\":\"k:%d\"}\n", n); err != nil {
				return
			}
		}
	}()
	defer body.Close()
	r, err := http.NewRequestWithContext(ctx, "POST", s.server.public+"/rate", body)
	if err != nil {
		s.Error(err)
		return
	}
	r.Header.Set("Content-Type", "application/x-ndjson")
	if resp, err := s.client(i).Do(r); err == nil {
		_, _ = io.CopyN(io.Discard, resp.Body, 1000)
		resp.Body.Close()
	}
}

func (s *soak) through(ctx context.Context, i int) {
	_, _, _ = s.try(ctx, s.h1, []string{"GET", "POST"}[i%2], s.proxy, strings.Repeat("x", rand.IntN(10_000)))
}

// turnAway asks the proxy, and does not read the answer.
func (s *soak) turnAway(ctx context.Context, _ int) {
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.proxy, "http://"))
	if err != nil {
		s.Error(err)
		return
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	pause(ctx, time.Duration(rand.IntN(100))*time.Millisecond)
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

type soakRest struct {
	goroutines, files int
	heap              uint64
}

func (r soakRest) String() string {
	return fmt.Sprintf("%d goroutines, %d descriptors, %d MiB of heap", r.goroutines, r.files, r.heap>>20)
}

// rest waits until three seconds pass in which no goroutine ends.
func (s *soak) rest() soakRest {
	s.h1.CloseIdleConnections()
	s.h2.CloseIdleConnections()
	best := soakRest{goroutines: 1 << 30}
	s.origin.CloseClientConnections()
	for same := 0; same < 30; same++ {
		http.DefaultClient.CloseIdleConnections()
		time.Sleep(100 * time.Millisecond)
		if n := runtime.NumGoroutine(); n < best.goroutines {
			best.goroutines, same = n, 0
		}
	}
	files, err := os.ReadDir("/proc/self/fd")
	if err == nil {
		best.files = len(files)
	}
	s.server.forget()
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	best.heap = m.HeapAlloc
	return best
}

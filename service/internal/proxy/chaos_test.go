package proxy_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/pipenet"
	"github.com/weir-go/weir/internal/testrig"
	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/service/internal/proxy"
)

var silent = log.New(io.Discard, "", 0)

const (
	chaosClients = 160
	fullLimit    = 8
	// mostStorms bounds a storm, in the numbers of requests that it begins with. The pauses of a client's 20 requests
	// take 110 ms. In that time the least limit, 1, can admit 50 that take 2.2 ms each, and admits 40. Of the 14 kinds,
	// two are dropped: 503 and late. So a bounded storm has 114 ± 10 drops: 50 are 6 standard deviations less.
	mostStorms = 20
)

// Of thousands of requests most go wrong in one way or another. Then
// nothing is in flight, no goroutine is left, and the limit admits exactly its
// full number.
func TestChaos(t *testing.T) { chaosOf(t, 3_200) }

// chaosOf sends at least that many requests with each kind of limit and client.
func chaosOf(t *testing.T, requests int) {
	for _, l := range []proxy.Limit{proxy.FixedLimit(fullLimit), {}} {
		for _, own := range []bool{false, true} {
			for _, origins := range []int{1, 3} {
				t.Run(fmt.Sprintf("limit %v, own client %v, %d origins", l, own, origins), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { chaos(t, l, own, origins, requests) }) // fails if a goroutine is left
				})
			}
		}
	}
}

// serveChaos serves over pipes, and returns how to dial.
func serveChaos(h http.Handler, wrap func(net.Listener) net.Listener) (srv *http.Server, dial func(context.Context, string, string) (net.Conn, error)) {
	ln := pipenet.Listen()
	srv = &http.Server{Handler: h, ErrorLog: silent}
	go func() { _ = srv.Serve(wrap(ln)) }()
	return srv, ln.Dial
}

func chaos(t *testing.T, l proxy.Limit, own bool, origins, requests int) {
	var gate atomic.Pointer[chan struct{}] // for the last check: requests that the origin holds
	origin, dialOrigin := serveChaos(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if g := gate.Load(); g != nil {
			<-*g
			return
		}
		misbehave(w, r)
	}), func(ln net.Listener) net.Listener { return ln })
	transport := &http.Transport{DialContext: dialOrigin, MaxIdleConnsPerHost: 64, DisableCompression: true}
	cfg := proxy.Config{
		Limit: l, Auto: limit.Config{Initial: fullLimit, Max: 12},
		Queue: 10, MaxWait: 2 * time.Millisecond, Timeout: 20 * time.Millisecond,
		AbandonedHold: 30 * time.Millisecond, ClientTimeout: 50 * time.Millisecond,
		Transport: panicky{transport},
	}
	if own {
		cfg.Transport, cfg.Dial = nil, dialOrigin
	}
	var calm atomic.Bool // all origins accept connections
	if origins > 1 {
		dial := dialOrigin
		comesAndGoes := func(ctx context.Context, network, addr string) (net.Conn, error) {
			if phase := time.Now().UnixMilli() / 20 % 3; !calm.Load() && addr == fmt.Sprintf("o%d:80", phase) {
				time.Sleep(time.Millisecond)
				return nil, &net.OpError{Op: "dial", Net: network, Err: syscall.ECONNREFUSED}
			}
			return dial(ctx, network, addr)
		}
		transport.DialContext = comesAndGoes
		if own {
			cfg.Dial = comesAndGoes
		}
		for i := range origins {
			cfg.Origins = append(cfg.Origins, fmt.Sprintf("http://o%d", i))
		}
	}
	p := newProxy(t, cfg)
	served := new(atomic.Int64)
	front, dial := serveChaos(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		served.Add(1)
		if r.Header.Get("Chaos") == "writer" {
			w = brokenWriter{w}
		}
		p.ServeHTTP(w, r)
	}), p.Listener)

	client := &http.Transport{DialContext: dial, MaxIdleConnsPerHost: chaosClients}
	storm(t, p, client, requests)
	testrig.Eventually(t, "nothing is in flight", idle(p))
	st := p.Stats()
	if sum := st.Admitted + st.Rejected[weir.OverLimit] + st.Rejected[weir.QueueFull] + st.Rejected[weir.Overdue] + st.Rejected[weir.TooLate] + st.Cancelled; sum > uint64(served.Load()) || sum < uint64(served.Load())*9/10 {
		t.Errorf("%+v: %d decisions on %d requests", st, sum, served.Load())
	}
	if sum := st.Outcomes[weir.Success] + st.Outcomes[weir.Dropped] + st.Outcomes[weir.Ignored]; sum != st.Admitted {
		t.Errorf("%+v: %d outcomes of %d admitted", st, sum, st.Admitted)
	}
	if what := tame(st); what != "" {
		t.Errorf("%+v: the storm is too tame: few are %s", st, what)
	}

	for _, o := range st.Origins {
		if o.Inflight != 0 {
			t.Errorf("%s has %d requests in flight", o.URL, o.Inflight)
		}
	}
	calm.Store(true)
	admitsExactly(t, p, dial, &gate)
	client.CloseIdleConnections()
	_ = front.Close()
	synctest.Wait()
	if n := p.Stats().Connections; n != 0 {
		t.Errorf("%d connections: want none", n)
	}
	transport.CloseIdleConnections()
	_ = origin.Close()
	time.Sleep(time.Second) // handlers that are busy end
}

// tame says of what there has been too little to prove anything.
func tame(st proxy.Stats) string {
	for what, n := range map[string]uint64{"success": st.Outcomes[weir.Success], "dropped": st.Outcomes[weir.Dropped], "ignored": st.Outcomes[weir.Ignored], "overdue, or too late": st.Rejected[weir.Overdue] + st.Rejected[weir.TooLate]} {
		if n < 50 {
			return what
		}
	}
	return ""
}

// storm sends the requests, while an operator changes the settings. It goes on while they are too tame: the
// origin fails so often that an automatic limit falls, to a half or less by chance, and fewer reach the origin.
func storm(t *testing.T, p *proxy.Proxy, transport http.RoundTripper, requests int) {
	done := make(chan struct{})
	var operator, clients sync.WaitGroup
	operator.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-done:
				return
			case <-time.After(5 * time.Millisecond):
			}
			queue := i % 12
			if err := p.Set(proxy.Change{Queue: &queue}); err != nil {
				t.Error(err)
			}
		}
	})
	for c := range chaosClients {
		clients.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(c), 0))
			least := requests / chaosClients
			for i := 0; i < least || i < mostStorms*least && tame(p.Stats()) != ""; i++ {
				request(rng, transport)
				time.Sleep(time.Duration(rng.IntN(12)) * time.Millisecond)
			}
		})
	}
	clients.Wait()
	close(done)
	operator.Wait()
}

// request is one client's, which may leave at any moment, send slowly, or
// break off.
func request(rng *rand.Rand, transport http.RoundTripper) {
	ctx, leave := context.WithCancel(context.Background())
	defer leave()
	if rng.IntN(3) == 0 {
		time.AfterFunc(time.Duration(rng.IntN(10_000))*time.Microsecond, leave)
	}
	kind := []string{"ok", "ok", "ok", "slow", "late", "reset", "cut", "stream", "503", "404", "panic", "upload", "writer", "hijack"}[rng.IntN(14)]
	var body io.Reader
	if kind == "upload" {
		body = &slowBody{chunks: rng.IntN(4), breaks: rng.IntN(3) == 0}
	}
	method := []string{http.MethodPost, http.MethodPut}[rng.IntN(2)]
	req, err := http.NewRequestWithContext(ctx, method, "http://proxy.test/", body)
	if err != nil {
		panic(err)
	}
	req.Header.Set("Chaos", kind)
	if kind == "hijack" {
		req.Header.Set("Connection", "Upgrade")
		req.Header.Set("Upgrade", "chaos")
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return
	}
	defer resp.Body.Close()
	if rng.IntN(4) > 0 {
		_, _ = io.Copy(io.Discard, resp.Body)
	}
}

// slowBody is a client's body that takes its time, and may break off.
type slowBody struct {
	chunks int
	breaks bool
}

func (b *slowBody) Read(p []byte) (int, error) {
	if b.chunks == 0 {
		if b.breaks {
			return 0, fmt.Errorf("broken off")
		}
		return 0, io.EOF
	}
	b.chunks--
	time.Sleep(time.Millisecond)
	return copy(p, "chunk"), nil
}

// misbehave is the origin.
func misbehave(w http.ResponseWriter, r *http.Request) {
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return
	}
	control := http.NewResponseController(w)
	switch kind := r.Header.Get("Chaos"); kind {
	case "slow":
		time.Sleep(3 * time.Millisecond)
	case "late":
		time.Sleep(25 * time.Millisecond)
	case "503", "404":
		code, _ := strconv.Atoi(kind)
		w.WriteHeader(code)
	case "reset":
		panic(http.ErrAbortHandler)
	case "cut":
		w.Header().Set("Content-Length", "1000")
		fmt.Fprint(w, "not a thousand")
		_ = control.Flush()
		panic(http.ErrAbortHandler)
	case "stream":
		for range 3 {
			fmt.Fprint(w, strings.Repeat("x", 1000))
			_ = control.Flush()
			time.Sleep(time.Millisecond)
		}
	case "hijack":
		conn, _, err := control.Hijack()
		if err != nil {
			return
		}
		fmt.Fprint(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: chaos\r\n\r\nbye")
		conn.Close()
	}
}

// panicky is a transport with a bug.
type panicky struct{ http.RoundTripper }

func (p panicky) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Header.Get("Chaos") == "panic" {
		panic("a bug")
	}
	return p.RoundTripper.RoundTrip(r)
}

// admitsExactly checks that a fixed limit still lets its full number through,
// and not one more.
func admitsExactly(t *testing.T, p *proxy.Proxy, dial func(context.Context, string, string) (net.Conn, error), gate *atomic.Pointer[chan struct{}]) {
	l, none := proxy.FixedLimit(fullLimit), 0
	testrig.Must(t, p.Set(proxy.Change{Limit: &l, Queue: &none}))
	open := make(chan struct{})
	gate.Store(&open)
	client := &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}
	before := p.Stats()
	var all sync.WaitGroup
	for range fullLimit {
		all.Go(func() {
			resp, err := client.Get("http://proxy.test/")
			if err != nil {
				t.Error(err)
				return
			}
			resp.Body.Close()
		})
	}
	testrig.Eventually(t, "the limit is reached", func() bool { return p.Stats().Inflight == fullLimit })
	resp, err := client.Get("http://proxy.test/")
	testrig.Must(t, err)
	resp.Body.Close()
	if resp.StatusCode != 503 {
		t.Errorf("status %d: want 503 for one too many", resp.StatusCode)
	}
	close(open)
	all.Wait()
	testrig.Eventually(t, "all have left", idle(p))
	if n := p.Stats().Admitted - before.Admitted; n != fullLimit {
		t.Errorf("%d admitted: want %d", n, fullLimit)
	}
}

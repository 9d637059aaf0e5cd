package proxy_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/testrig"

	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/service/internal/balance"
	"github.com/weir-go/weir/service/internal/proxy"
)

// A server is an origin in memory with some workers. Each serves a request in a time.
type server struct {
	workers chan struct{}
	takes   time.Duration

	mu     sync.Mutex    // guards the fields below
	dead   bool          // it refuses connections
	killed chan struct{} // closed when it dies
	thaw   chan struct{} // closed when it goes on; nil: it does not hang

	most, inside atomic.Int64 // requests inside
}

func newServer(workers int, takes time.Duration) *server {
	return &server{workers: make(chan struct{}, workers), takes: takes, killed: make(chan struct{})}
}

func (o *server) serve(r *http.Request) (*http.Response, error) {
	o.mu.Lock()
	dead, killed := o.dead, o.killed
	o.mu.Unlock()
	if dead {
		return refuses(r)
	}
	o.most.Store(max(o.most.Load(), o.inside.Add(1)))
	defer o.inside.Add(-1)
	until := func(done <-chan struct{}) error {
		select {
		case <-done:
			return nil
		case <-killed:
			return syscall.ECONNRESET
		case <-r.Context().Done():
			return r.Context().Err()
		}
	}
	if err := until(o.thawed()); err != nil {
		return nil, err
	}
	select {
	case o.workers <- struct{}{}:
		defer func() { <-o.workers }()
	case <-killed:
		return nil, syscall.ECONNRESET
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	worked, cancel := context.WithTimeout(context.Background(), o.takes)
	defer cancel()
	if err := until(worked.Done()); err != nil {
		return nil, err
	}
	if err := until(o.thawed()); err != nil {
		return nil, err
	}
	return answer(200), nil
}

var closed = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

func (o *server) thawed() <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.thaw == nil {
		return closed
	}
	return o.thaw
}

func (o *server) hang() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.thaw = make(chan struct{})
}

func (o *server) goOn() {
	o.mu.Lock()
	defer o.mu.Unlock()
	close(o.thaw)
	o.thaw = nil
}

func (o *server) kill() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.dead = true
	close(o.killed)
}

func (o *server) start() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.dead, o.killed = false, make(chan struct{})
}

// A fleet is several servers behind a proxy, with clients that leave after five seconds.
type fleet struct {
	arrivals
	servers []*server
}

func newFleet(t *testing.T, change func(*proxy.Config), servers ...*server) *fleet {
	g := newGroup(map[string]origin{})
	cfg := defaults(g.RoundTrip)
	cfg.Timeout = 2 * s
	for i, o := range servers {
		host := fmt.Sprint("o", i)
		g.does[host] = o.serve
		cfg.Origins = append(cfg.Origins, "http://"+host)
	}
	if change != nil {
		change(&cfg)
	}
	return &fleet{arrivals{t: t, proxy: newProxy(t, cfg)}, servers}
}

// during sends requests at a rate, and returns how many of them were served in the end.
func (f *fleet) during(rate int, d time.Duration) (good, all int) {
	var served atomic.Int64
	var mine sync.WaitGroup
	all = int(d.Seconds() * float64(rate))
	for range all {
		mine.Go(func() {
			ctx, leave := context.WithTimeout(f.t.Context(), 5*s)
			defer leave()
			w := httptest.NewRecorder()
			f.proxy.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil))
			if w.Code == http.StatusOK {
				served.Add(1)
			}
		})
		time.Sleep(s / time.Duration(rate))
	}
	mine.Wait()
	return int(served.Load()), all
}

// serves expects that a share of the requests is served.
func (f *fleet) serves(when string, rate int, d time.Duration, share float64) {
	f.t.Helper()
	if good, all := f.during(rate, d); float64(good) < share*float64(all) {
		f.t.Errorf("%s: %d of %d requests served: want %.0f %%", when, good, all, 100*share)
	}
}

// end expects that nothing is left over.
func (f *fleet) end() {
	f.t.Helper()
	time.Sleep(2 * time.Minute)
	want(f.t, f.proxy, 0, 0)
	for i, o := range f.proxy.Stats().Origins {
		if o.Inflight != 0 {
			f.t.Errorf("origin %d has %d in flight", i, o.Inflight)
		}
	}
}

func three() []*server {
	return []*server{newServer(4, 50*time.Millisecond), newServer(4, 50*time.Millisecond), newServer(4, 50*time.Millisecond)}
}

// limitsOfTests are an adaptive limit, a fixed one, and a longer time-out.
var limitsOfTests = map[string]func(*proxy.Config){
	"auto":    nil,
	"fixed":   func(c *proxy.Config) { c.Limit = proxy.FixedLimit(20) },
	"patient": func(c *proxy.Config) { c.Timeout = 30 * s },
}

// While origins hang or are dead, the others serve what they can.
func TestOriginsThatHangOrAreDead(t *testing.T) {
	for name, cfg := range limitsOfTests {
		for _, c := range []struct {
			hang, dead []int
		}{{hang: []int{0}}, {hang: []int{0, 1}}, {hang: []int{0}, dead: []int{1}}, {dead: []int{0}}, {dead: []int{0, 1}}} {
			t.Run(fmt.Sprint(name, " hang ", c.hang, " dead ", c.dead), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f := newFleet(t, cfg, three()...)
					f.serves("before", 50, 10*s, 1)
					for _, i := range c.hang {
						f.servers[i].hang()
					}
					for _, i := range c.dead {
						f.servers[i].kill()
					}
					f.serves("at first", 50, 3*s, 0.9)
					f.serves("from three seconds on", 50, 30*s, 1)
					for _, i := range c.hang {
						state(t, f.proxy, i, balance.Ejected)
						f.servers[i].goOn()
					}
					for _, i := range c.dead {
						state(t, f.proxy, i, balance.Ejected)
						f.servers[i].start()
					}
					f.serves("while they return", 50, 30*s, 1)
					for i := range f.servers {
						state(t, f.proxy, i, balance.In)
					}
					f.serves("afterwards", 150, 30*s, 0.95)
					f.end()
				})
			})
		}
	}
}

// When no origin serves, each of them is tried; when they return, requests are served within two seconds.
func TestAllOriginsAreOutAndReturn(t *testing.T) {
	for name, cfg := range limitsOfTests {
		for _, how := range []struct {
			name      string
			out, back func(*server)
		}{{"dead", (*server).kill, (*server).start}, {"hanging", (*server).hang, (*server).goOn}} {
			t.Run(name+" "+how.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f := newFleet(t, cfg, three()...)
					f.serves("before", 100, 10*s, 1)
					for _, o := range f.servers {
						how.out(o)
					}
					f.during(100, 20*s)
					for _, o := range f.servers {
						how.back(o)
					}
					go f.during(100, 2*s)
					time.Sleep(2 * s)
					f.serves("from two seconds after the return on", 100, 20*s, 0.99)
					f.end()
				})
			})
		}
	}
}

// Unequal origins get unequal work: together they serve nearly what all can.
func TestUnequalOrigins(t *testing.T) {
	for name, c := range map[string]struct {
		workers int
		takes   time.Duration
		rate    int // 90 % of what all can serve
	}{"ten times slower": {4, 500 * time.Millisecond, 151}, "half the size": {2, 50 * time.Millisecond, 180}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t, nil, newServer(c.workers, c.takes), newServer(4, 50*time.Millisecond), newServer(4, 50*time.Millisecond))
				f.during(c.rate, 30*s)
				f.serves("later", c.rate, 60*s, 0.97)
				for i := range f.servers {
					state(t, f.proxy, i, balance.In)
				}
				f.end()
			})
		})
	}
}

// A limit of one origin keeps its work out of a queue there, whatever others do.
func TestEachOriginHasALimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, nil, newServer(2, 50*time.Millisecond), newServer(8, 50*time.Millisecond))
		f.during(300, 60*s) // of 200
		f.servers[0].most.Store(0)
		f.servers[1].most.Store(0)
		good, all := f.during(300, 30*s)
		if good < 190*30 {
			t.Errorf("%d of %d requests served: want 200 a second", good, all)
		}
		if small, large := f.servers[0].most.Load(), f.servers[1].most.Load(); small > 8 || large > 24 || small < 2 || large < 8 {
			t.Errorf("%d and %d at once: want about the 2 and 8 workers", small, large)
		}
		f.end()
	})
}

// While origins restart one after the other, or one comes and goes, all requests that may be repeated are served.
func TestOriginsThatRestart(t *testing.T) {
	for name, cfg := range limitsOfTests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t, cfg, three()...)
				f.serves("before", 100, 10*s, 1)
				for i := range f.servers {
					f.servers[i].kill()
					f.serves(fmt.Sprint("without origin ", i), 100, 5*s, 1)
					f.servers[i].start()
					f.serves(fmt.Sprint("with origin ", i), 100, 15*s, 1)
				}
				for range 10 {
					f.servers[1].kill()
					f.serves("while one is away", 100, 2*s, 1)
					f.servers[1].start()
					f.serves("while it is there", 100, 2*s, 1)
				}
				f.end()
			})
		})
	}
}

// A request that may be repeated goes to another origin if its origin breaks off, or is out because it answers nothing; a POST does not.
func TestMovesToAnotherOrigin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, nil, newServer(4, 50*time.Millisecond), newServer(4, 50*time.Millisecond))
		f.servers[0].hang()
		var wrong atomic.Int64
		var all sync.WaitGroup
		for i := range 100 {
			all.Go(func() {
				method := "GET"
				if i%2 == 0 {
					method = "POST"
				}
				if code := call(t, f.proxy, method, nil); code != 200 && (method == "GET" || code != 504) {
					wrong.Add(1)
				}
			})
			time.Sleep(s / 100)
		}
		all.Wait()
		if wrong.Load() > 0 {
			t.Errorf("%d wrong answers", wrong.Load())
		}
		st := f.proxy.Stats()
		if st.Origins[0].Retried == 0 {
			t.Error("none has gone to another origin")
		}
		if admitted := st.Admitted; admitted != 100 {
			t.Errorf("%d admitted: want 100", admitted)
		}
		time.Sleep(time.Minute)
		st, ended := f.proxy.Stats(), uint64(0)
		for _, n := range st.Outcomes {
			ended += n
		}
		if ended != 100 {
			t.Errorf("%v: want 100 outcomes", st.Outcomes)
		}
		f.servers[0].goOn()
		f.end()
	})
}

// An operator can change an adaptive limit of each origin into a number for all, and back.
func TestLimitForEachAndForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, nil, three()...)
		f.serves("auto", 100, 10*s, 1)
		for _, l := range []proxy.Limit{proxy.FixedLimit(6), {}} {
			testrig.Must(t, f.proxy.Set(proxy.Change{Limit: &l}))
			f.serves(fmt.Sprint(l), 100, 20*s, 0.99)
		}
		if st := f.proxy.Stats(); st.Limit < 6 {
			t.Errorf("limit %d: want at least 2 for each origin", st.Limit)
		}
		six := proxy.FixedLimit(6)
		testrig.Must(t, f.proxy.Set(proxy.Change{Limit: &six}))
		if st := f.proxy.Stats(); st.Limit != 6 {
			t.Errorf("limit %d: want 6", st.Limit)
		}
		f.end()
	})
}

// The status, its sentence for people, and the metrics name an origin that is out.
func TestStatusNamesOriginsThatAreOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, nil, three()...)
		f.serves("before", 100, 5*s, 1)
		if st := f.proxy.Status(); st.Out != nil || !st.OutSince.IsZero() || st.Origins != 3 {
			t.Errorf("%d origins, out since %v: %q", st.Origins, st.OutSince, st.Out)
		}
		before := f.proxy.Stats()
		bounds := func(least int) {
			t.Helper()
			text := fetch(f.proxy.Admin(), "/metrics").Body.String()
			for _, line := range []string{fmt.Sprintf(`weir_proxy_class_bound{class="default",of="min_limit"} %d`, least), `weir_proxy_class_bound{class="default",of="queue"} 3000`} {
				if !strings.Contains(text, line) {
					t.Errorf("/metrics has no %s", line)
				}
			}
		}
		bounds(3)
		failed := time.Now()
		f.servers[1].hang()
		f.servers[2].kill()
		f.serves("at first", 50, 5*s, 1)
		f.proxy.Status()
		f.serves("meanwhile", 50, 15*s, 1)
		if after := f.proxy.Status().OutSince.Sub(failed); after < s || after > 6*s {
			t.Errorf("out since %v after the first failure: want when it was first seen", after)
		}
		if out := f.proxy.Status().Out; fmt.Sprint(out) != "[http://o1 (silence) http://o2 (connections)]" {
			t.Errorf("out: %q", out)
		}
		bounds(1)
		r := f.proxy.Report()
		if o := r.Origins[1]; o.State != "ejected" || o.Cause != "silence" || o.Limit == 0 {
			t.Errorf("%+v", o)
		}
		if st := f.proxy.Stats(); st.Limit != st.Origins[0].Limit || before.Limit != before.Origins[0].Limit+before.Origins[1].Limit+before.Origins[2].Limit {
			t.Errorf("limits %d and %d of %+v: want those of the origins that are not out", before.Limit, st.Limit, st.Origins)
		}
		text := fetch(f.proxy.Admin(), "/metrics").Body.String()
		for _, line := range []string{
			`weir_proxy_signs_total{sign="timeout"} 0`, `weir_proxy_signs_total{sign="connection_refused"} 0`, // all are served
			`weir_proxy_origin_state{origin="http://o1",state="ejected"} 1`, `weir_proxy_origin_ejections_total{cause="silence",origin="http://o1"} 1`,
			`weir_proxy_origin_ejections_total{cause="connections",origin="http://o2"} 1`, `weir_proxy_origin_limit{origin="http://o0"} `, `weir_proxy_origin_limit_min{origin="http://o0"} 1`,
		} {
			if !strings.Contains(text, line) {
				t.Errorf("/metrics has no %s", line)
			}
		}
		f.servers[1].goOn()
		f.end()
	})
}

// Limits of classes and of all classes, a reload and shadow mode work with several origins as with one.
func TestClassesOfSeveralOrigins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		servers := three()
		g := newGroup(map[string]origin{"a": servers[0].serve, "b": servers[1].serve, "c": servers[2].serve})
		const classes = "classes: [{name: few, routes: /few, limit: 2}, {name: own, routes: /own, limit: auto}]\ntotal: {limit: %s}\n"
		p := withRules(t, fmt.Sprintf(classes, "auto"), proxy.Config{
			Origins: []string{"http://a", "http://b", "http://c"}, Transport: g, Limit: proxy.Limit{}, Auto: limit.Config{Initial: 10, Min: 1, Max: 1000}, Queue: 100, MaxWait: s,
		})
		play := func(when string) {
			t.Helper()
			for _, path := range []string{"/few", "/own", "/"} {
				for range 40 {
					if n := p.crowd(3, path); n != 3 {
						t.Errorf("%s: %d of 3 requests to %s", when, n, path)
					}
				}
			}
		}
		play("total auto")
		p.reload(fmt.Sprintf(classes, "3"))
		play("total 3")
		p.reload(fmt.Sprintf(classes, "auto") + "tenants: {by: address}\n")
		play("with tenants")
		servers[0].hang()
		p.crowd(50, "/own")
		time.Sleep(2 * s)
		play("one hangs")
		p.reload(fmt.Sprintf(classes, "auto") + "mode: shadow\n")
		if n := p.crowd(100, "/few"); n != 100 {
			t.Errorf("%d of 100 requests in shadow mode", n)
		}
		servers[0].goOn()
		time.Sleep(2 * time.Minute)
		if st := p.Stats(); st.Inflight != 0 || st.Waiting != 0 {
			t.Errorf("%d in flight, %d waiting", st.Inflight, st.Waiting)
		}
		for i, o := range p.Stats().Origins {
			if o.Inflight != 0 {
				t.Errorf("origin %d has %d in flight", i, o.Inflight)
			}
		}
	})
}

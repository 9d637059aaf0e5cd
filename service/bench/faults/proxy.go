package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"
)

const (
	timeout   = 2 * time.Second // of the proxy: less than a third of the callers' patience
	ofOrigins = "origins.md#when-an-origin-fails"
	ofProxy   = "proxy.md#safety"
)

// serveOrigin is an origin that works for 20 ms.
func serveOrigin(addr string) error {
	return http.ListenAndServe(addr, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		time.Sleep(20 * time.Millisecond)
		_, _ = io.WriteString(w, "ok\n")
	}))
}

// A front is weir proxy before three origins, each on a host.
type front struct {
	proxy   *proc
	origins []*proc
}

func (w *world) front(args ...string) *front {
	self, err := os.Executable()
	check(err)
	f := &front{}
	h := w.host()
	args = append([]string{w.weir, "proxy", "--listen", h.ip + ":7000", "--admin", h.ip + ":8081", "--timeout", timeout.String()}, args...)
	for range 3 {
		h := w.host()
		f.origins = append(f.origins, h.start(8000, self, "-listen", h.ip+":8000"))
		args = append(args, "--origin", f.origins[len(f.origins)-1].url())
	}
	f.proxy = h.start(7000, args...)
	return f
}

// through is an asker for pages through the proxy.
func (w *world) through(f *front) asker {
	return func(int) (bool, string, error) { return decision(w.client.Get(f.proxy.url() + "/")) }
}

// An originFault happens to one of three origins.
type originFault struct {
	name       string
	begin, end func(o *proc, proxy *host)
}

var originFaults = []originFault{
	{"kill -9 of an origin, and a start", func(o *proc, _ *host) { o.kill() }, func(o *proc, _ *host) { o.again() }},
	{"SIGSTOP of an origin", func(o *proc, _ *host) { o.stop() }, func(o *proc, _ *host) { o.cont() }},
	{"silent partition of an origin", func(o *proc, proxy *host) { cut(o.h, proxy) }, func(o *proc, proxy *host) { heal(o.h, proxy) }},
	{"one direction is lost: from an origin", func(o *proc, proxy *host) { o.h.deafen(proxy) }, func(o *proc, proxy *host) { o.h.hear(proxy) }},
	{"an origin's host vanishes and comes back, half-open connections stay", func(o *proc, _ *host) { o.h.unplug(); o.kill() }, func(o *proc, _ *host) { o.launch(); o.h.plug() }},
}

func proxyPlays() (all []row) {
	for _, f := range originFaults {
		all = append(all, row{"proxy", f.name, f.play})
	}
	return append(all,
		row{"proxy", "kill -9, and a start", func(w *world) {
			playProxy(w, func(f *front) { f.proxy.kill(); f.proxy.again() }, 2*burst, "*b* + *b*: a start has full buckets")
		}},
		row{"proxy", "SIGTERM, and a start", func(w *world) {
			playProxy(w, func(f *front) { f.proxy.end(); f.proxy.again() }, 2*burst, "*b* + *b*: a start has full buckets")
		}},
		row{"proxy", "rotated token of operators", playOperators},
		row{"proxy", "SIGSTOP for 1 s", func(w *world) {
			playProxy(w, func(f *front) { f.proxy.stop(); time.Sleep(time.Second); f.proxy.cont() }, burst, "*b*: a stall gives nothing")
		}})
}

var proxyRows = proxyPlays()

func (f originFault) play(w *world) {
	rig := w.front()
	w.client.Timeout = 4 * timeout
	l := w.startLoad(1, 4, w.through(rig))
	w.pause(3 * time.Second)
	from := l.now()
	origin := rig.origins[w.random.IntN(len(rig.origins))]
	f.begin(origin, rig.proxy.h)
	time.Sleep(absence)
	f.end(origin, rig.proxy.h)
	w.pause(3 * time.Second)
	all := l.stop()
	w.none("requests that are not served", all.failures(), "another origin serves a GET", ofOrigins)
	w.late(all, from, l.now(), 2*timeout, "two `--timeout`: a request goes to another origin, twice at most", ofOrigins)
}

// playProxy plays a fault of the proxy itself, which limits the rate of a client.
func playProxy(w *world, fault func(f *front), bound float64, stated string) {
	f := w.front("--drain-delay", "0s", "--rules", w.file("proxy.yaml", fmt.Sprintf("rules: [{name: clients, by: address, rate: %d/s, burst: %d}]\n", rate, burst)))
	l := startLoad(1, 4, w.through(f))
	w.pause(2 * time.Second)
	fault(f)
	from := l.now()
	w.pause(3 * time.Second)
	all := l.stop()
	w.excess(all, bound, stated, ofProxy)
	w.none("requests that are not served, from its end on", all.between(from, l.now()).failures(), "it serves", ofProxy)
}

// playOperators replaces the token of operators while the proxy serves.
func playOperators(w *world) {
	before, after := "a-token-of-operators-1", "another-token-of-operators"
	f := w.front("--admin-tokens", w.allow(before, "admin"))
	l := w.startLoad(1, 4, w.through(f))
	w.pause(time.Second)
	allows := func(secret string) bool {
		r, err := http.NewRequest("GET", "http://"+f.proxy.h.ip+":8081/metrics", nil)
		check(err)
		r.Header.Set("Authorization", "Bearer "+secret)
		resp, err := w.client.Do(r)
		check(err)
		check(resp.Body.Close())
		return resp.StatusCode == http.StatusOK
	}
	if !allows(before) || allows(after) {
		check(errors.New("the first token is not the one that counts"))
	}
	w.allow(after, "admin")
	replaced, from := time.Now(), l.now()
	for allows(before) || !allows(after) {
		time.Sleep(10 * time.Millisecond)
	}
	took := time.Since(replaced)
	control := w.control.sofar().between(from-time.Second, l.now()).quantile(1)
	all := l.stop()
	w.none("requests that are not served", all.failures(), "it serves", ofProxy)
	w.measures = append(w.measures, measure{What: "until the new token counts, and the old one does not", Value: took.Seconds()*1000 - control, Bound: 410,
		Stated: "400 ms until the file is read, and 10 ms until the next try, beyond the control's longest", Link: "proxy-operate.md#access-of-operators", Unit: "ms"})
}

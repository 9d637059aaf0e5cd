package main

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/weir-go/weir/client"
)

const (
	leaves     = 2
	assignment = 2 * time.Second // --assignment-ttl: the absence goes on for longer

	upstreamTimeout = 300 * time.Millisecond

	ofExactness = "scale.md#how-exact-leaves-are"
	ofLeaves    = "scale.md#without-the-upstream"
)

// serveLeaf serves the decisions of a Go client that is a leaf of a weir serve.
func serveLeaf(addr, upstream string) error {
	token, err := os.ReadFile(os.Getenv("FAULTS_TOKEN"))
	if err != nil {
		return err
	}
	c, err := client.New(client.Config{URL: upstream, Token: string(token), Timeout: upstreamTimeout, Away: client.Local, Instances: leaves, Leaf: &client.LeafConfig{}})
	if err != nil {
		return err
	}
	defer c.Close()
	return http.ListenAndServe(addr, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d, err := c.Take(r.Context(), r.URL.Path[len("/rate/"):], 1)
		switch {
		case err != nil:
			w.WriteHeader(http.StatusInternalServerError)
		case !d.OK:
			w.WriteHeader(http.StatusTooManyRequests)
		}
	}))
}

// A tree is an upstream and its leaves, each on a host.
type tree struct {
	w        *world
	upstream *proc
	leaves   []*proc
}

// tree starts an upstream, and leaves: instances of weir serve, or Go clients.
func (w *world) tree(goClients bool) *tree {
	rules := w.file("rules.yaml", rules(""))
	w.allow("a-token-of-leaves-1")
	token := w.file("token", "a-token-of-leaves-1")
	t := &tree{w: w, upstream: w.host().serve("--rules", rules, "--assignment-ttl", assignment.String(), "--tokens", w.dir+"/tokens.yaml", "--watch-interval", "100ms")}
	for range leaves {
		h := w.host()
		p := &proc{h: h, addr: h.ip + ":8080", env: []string{"FAULTS_TOKEN=" + token}, args: []string{w.weir, "serve", "--listen", h.ip + ":8080", "--admin", h.ip + ":8081",
			"--rules", rules, "--upstream", t.upstream.url(), "--upstream-leaves", fmt.Sprint(leaves), "--upstream-timeout", upstreamTimeout.String(), "--upstream-token-file", token}}
		if goClients {
			self, err := os.Executable()
			check(err)
			p.args = []string{self, "-leaf", t.upstream.url(), "-listen", h.ip + ":8080"}
		}
		h.processes = append(h.processes, p)
		p.again()
		t.leaves = append(t.leaves, p)
	}
	return t
}

// allow writes a file of tokens with one that allows some things: all requests of callers without any.
func (w *world) allow(secret string, what ...string) (path string) {
	return w.file("tokens.yaml", fmt.Sprintf("tokens: [{name: callers, token: %s, allow: [%s]}]\n", secret, strings.Join(append(what, "decide", "lease"), ", ")))
}

// A leafFault happens to a tree.
type leafFault struct {
	name       string
	begin, end func(t *tree)
	forgets    bool // the upstream loses its state
	away       bool // the first leaf gives no decision meanwhile
}

var leafFaults = []leafFault{
	{name: "kill -9 of the upstream, and a start", forgets: true, begin: func(t *tree) { t.upstream.kill() }, end: func(t *tree) { t.upstream.again() }},
	{name: "SIGSTOP of the upstream", begin: func(t *tree) { t.upstream.stop() }, end: func(t *tree) { t.upstream.cont() }},
	{name: "silent partition of all from the upstream", begin: func(t *tree) { t.upstream.h.unplug() }, end: func(t *tree) { t.upstream.h.plug() }},
	{name: "silent partition of one from the upstream", begin: func(t *tree) { cut(t.upstream.h, t.leaves[0].h) }, end: func(t *tree) { heal(t.upstream.h, t.leaves[0].h) }},
	{name: "the upstream's host vanishes and comes back, half-open connections stay", forgets: true, begin: func(t *tree) { t.upstream.h.unplug(); t.upstream.kill() },
		end: func(t *tree) { t.upstream.launch(); t.upstream.h.plug() }},
	{name: "kill -9 of one, and a start", away: true, begin: func(t *tree) { t.leaves[0].kill() }, end: func(t *tree) { t.leaves[0].again() }},
	{name: "SIGSTOP of one", away: true, begin: func(t *tree) { t.leaves[0].stop() }, end: func(t *tree) { t.leaves[0].cont() }},
	{name: "rotated token, that they do not have", begin: func(t *tree) { t.w.allow("another-token-of-leaves") }, end: func(t *tree) { t.w.allow("a-token-of-leaves-1") }},
}

func leafPlays(family string, goClients bool) (all []row) {
	for _, f := range leafFaults {
		all = append(all, row{family, f.name, func(w *world) { f.play(w, goClients) }})
	}
	return all
}

var upgradedLeaf = leafFault{name: "versions that differ: one starts as the release before, and back", away: true,
	begin: func(t *tree) { t.leaves[0].restart(t.w.released) }, end: func(t *tree) { t.leaves[0].restart(t.w.weir) }}

var (
	tierRows = append(leafPlays("tiers", false), row{"tiers", upgradedLeaf.name, func(w *world) { upgradedLeaf.play(w, false) }})
	leafRows = leafPlays("leaves", true)
)

func (f leafFault) play(w *world, goClients bool) {
	t := w.tree(goClients)
	l := w.startLoad(leaves, 3, w.tokens("k", t.leaves...))
	w.pause(3 * time.Second)
	from := l.now()
	f.begin(t)
	time.Sleep(absence + assignment)
	f.end(t)
	w.pause(4 * time.Second)
	all := l.stop()
	bound, stated, link := float64(burst), "*b*: no overshoot", ofExactness
	if f.forgets {
		bound, stated, link = 2*burst, "*b* + *b*, used since the last save", ofCrash
	}
	w.excess(all.between(time.Second, l.now()), bound, stated, link) // without the first second of a key
	others := all
	switch {
	case f.away:
		others = all.of(1)
	case !goClients:
		degraded(all.between(from, from+absence+assignment))
	}
	w.none("requests without a decision", others.failures(), "a leaf decides by itself", ofLeaves)
	w.late(others, from, l.now(), 2*upstreamTimeout, "two `--upstream-timeout`", "serve.md#more-than-one-instance")
}

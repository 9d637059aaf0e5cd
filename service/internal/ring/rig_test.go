package ring

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/slot"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/peer"
	"github.com/weir-go/weir/service/internal/peer/wire"
	"github.com/weir-go/weir/service/internal/ring/census"
	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// A fleet is members in one process, with a network that a test can cut.
type fleet struct {
	t     *testing.T
	cfg   Config // of every Ring
	rules *config.Rules
	names []string
	lists map[string][]string // of members that have another list than names
	// pause is the time from the end of a link to the next attempt to connect.
	pause time.Duration

	telling sync.Mutex // held while links tell their states, in the order in which these change; before mu

	mu     sync.Mutex // guards what follows
	nodes  map[string]*node
	cuts   map[[2]string]bool // directions in which nothing passes
	starts int
}

// A node is a process.
type node struct {
	*Ring
	name   string
	server *server.Server
	links  []*fakeLink // to others
	serves decider.Decider
	ctx    context.Context // ends with the process
	die    context.CancelFunc
}

// latency is the time that a request needs to another member.
const latency = time.Millisecond

// inFleet runs f with a fleet of n members that know each other, in virtual time.
func inFleet(t *testing.T, n int, rules *config.Rules, f func(t *testing.T, f *fleet)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		fl := &fleet{t: t, rules: rules, cfg: Config{Strangers: true}, lists: map[string][]string{}, nodes: map[string]*node{}, cuts: map[[2]string]bool{}}
		for i := range n {
			fl.names = append(fl.names, string(rune('a'+i)))
		}
		for _, name := range fl.names {
			fl.start(name)
		}
		time.Sleep(5 * time.Second)
		f(t, fl)
		for name := range maps.Clone(fl.nodes) {
			fl.kill(name)
		}
		time.Sleep(time.Second) // calls that are being served end
	})
}

// start starts the process of a member.
func (f *fleet) start(name string) *node {
	f.t.Helper()
	local, err := server.New(server.Config{Rules: f.rules, Fleet: "secret", MaxQueue: 100})
	if err != nil {
		f.t.Fatal(err)
	}
	alone, err := server.NewFallback(server.Config{Rules: f.rules}, config.AwayShare)
	if err != nil {
		f.t.Fatal(err)
	}
	f.mu.Lock()
	f.starts++
	n := &node{name: name, server: local}
	n.ctx, n.die = context.WithCancel(context.Background())
	cfg := f.cfg
	cfg.Local, cfg.Fallback, cfg.Node = local, alone, fmt.Sprintf("%s#%d", name, f.starts)
	cfg.Dial = func(m census.Member, onState func(peer.State)) (Link, error) {
		l := &fakeLink{f: f, from: name, to: m.Name, onState: onState, lost: make(chan struct{})}
		f.mu.Lock()
		n.links = append(n.links, l)
		f.mu.Unlock()
		go f.update()
		return l, nil
	}
	n.Ring = New(cfg)
	n.serves = n.Receiver()
	f.nodes[name] = n
	f.mu.Unlock()
	list := f.names
	if own := f.lists[name]; own != nil {
		list = own
	}
	f.use(n, list)
	f.update()
	return n
}

// use sets the list of a process.
func (f *fleet) use(n *node, names []string) {
	f.t.Helper()
	var all []census.Member
	for _, name := range names {
		all = append(all, census.Member{Name: name, URL: "http://" + name})
	}
	if err := n.Use(all); err != nil {
		f.t.Fatal(err)
	}
}

// roll ends a process as SIGTERM does, and starts another one with a list.
func (f *fleet) roll(name string, list ...string) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	began := time.Now()
	if moved, err := f.nodes[name].Leave(ctx); !moved || err != nil || time.Since(began) > 500*time.Millisecond {
		f.t.Errorf("%s leaves: %v, %v after %v", name, moved, err, time.Since(began))
	}
	f.kill(name)
	if f.lists[name] = list; list != nil {
		f.start(name)
	}
}

// kill ends the process of a member, as kill -9 does.
func (f *fleet) kill(name string) {
	f.mu.Lock()
	n := f.nodes[name]
	delete(f.nodes, name)
	f.mu.Unlock()
	if n == nil {
		return
	}
	n.die()
	f.update()
	n.End()
}

// cut cuts the network between members in both directions, or repairs it.
func (f *fleet) cut(a, b string, cut bool) {
	f.mu.Lock()
	f.cuts[[2]string{a, b}], f.cuts[[2]string{b, a}] = cut, cut
	f.mu.Unlock()
	f.update()
}

// update tells all links whether they work.
func (f *fleet) update() {
	f.telling.Lock()
	defer f.telling.Unlock()
	f.mu.Lock()
	var tell []func()
	for _, n := range f.nodes {
		for _, l := range n.links {
			to := f.nodes[l.to]
			up := to != nil && !f.cuts[[2]string{l.from, l.to}] && !l.closed
			id := ""
			if to != nil {
				id = to.cfg.Node
			}
			if up == l.up && (!up || id == l.node) || up && l.paused {
				continue
			}
			if !up && f.pause > 0 && !l.closed {
				l.paused = true
				time.AfterFunc(f.pause, l.Redial)
			}
			if l.up { // also if another process is there
				close(l.lost)
			}
			l.lost, l.up = make(chan struct{}), up
			if up {
				l.node = id
			}
			s := peer.State{Up: up, Peer: wire.Info{Node: l.node}}
			tell = append(tell, func() { l.onState(s) })
		}
	}
	f.mu.Unlock()
	for _, tell := range tell {
		tell()
	}
}

// A fakeLink is a link to a member in the same process.
type fakeLink struct {
	f        *fleet
	from, to string
	onState  func(peer.State)

	// Guarded by fleet.mu.
	up     bool
	node   string
	lost   chan struct{} // closed when the link is lost
	closed bool
	paused bool
}

func (l *fakeLink) Stats() peer.Stats {
	l.f.mu.Lock()
	defer l.f.mu.Unlock()
	return peer.Stats{State: peer.State{Up: l.up, Peer: wire.Info{Node: l.node, Revision: wire.KnowsEpochs}}}
}

func (l *fakeLink) Redial() {
	l.f.mu.Lock()
	l.paused = false
	l.f.mu.Unlock()
	go l.f.update()
}

func (l *fakeLink) Close() error {
	l.f.mu.Lock()
	l.closed = true
	l.f.mu.Unlock()
	return nil
}

// do has the member do something, and waits for that unless the link is lost.
func (l *fakeLink) do(ctx context.Context, do func(context.Context, *node) error) error {
	l.f.mu.Lock()
	up, lost, to := l.up, l.lost, l.f.nodes[l.to]
	l.f.mu.Unlock()
	if !up || to == nil {
		return wire.ErrUnavailable
	}
	time.Sleep(latency)
	serving, cancel := context.WithCancel(to.ctx)
	stop := context.AfterFunc(ctx, cancel)
	done := make(chan error, 1)
	go func() { done <- do(serving, to) }()
	defer func() { stop(); cancel() }()
	select {
	case err := <-done:
		if to.ctx.Err() != nil {
			return wire.ErrUnavailable
		}
		return err
	case <-lost:
		return wire.ErrUnavailable
	case <-ctx.Done():
		return ctx.Err()
	}
}

// verdict completes a verdict with the id of its grant.
func (n *node) verdict(req *decider.Request, v *decider.Verdict) {
	if req.WantID && v.OK && v.Grant.N > 0 {
		v.Grant.ID = string(n.serves.AppendGrantID(nil, v.Grant, req.Key))
	}
}

func (l *fakeLink) Decide(ctx context.Context, req *decider.Request, v *decider.Verdict) error {
	asked, got := *req, new(decider.Verdict)
	err := l.do(ctx, func(ctx context.Context, n *node) error {
		err := n.serves.Decide(ctx, &asked, got)
		n.verdict(&asked, got)
		return err
	})
	if err == nil {
		*v = *got
	}
	return err
}

func (l *fakeLink) Wait(ctx context.Context, req *decider.Request, v *decider.Verdict) error {
	asked, got := *req, new(decider.Verdict)
	err := l.do(ctx, func(ctx context.Context, n *node) error {
		err := n.serves.Wait(ctx, &asked, got)
		n.verdict(&asked, got)
		return err
	})
	if err == nil {
		*v = *got
	}
	return err
}

func (l *fakeLink) Batch(ctx context.Context, reqs []decider.Request, all bool, verdicts []decider.Verdict) (ok bool, err error) {
	asked, got := slices.Clone(reqs), make([]decider.Verdict, len(reqs))
	var allowed bool
	err = l.do(ctx, func(ctx context.Context, n *node) (err error) {
		allowed, err = n.serves.Batch(ctx, asked, all, got)
		for i := range asked {
			n.verdict(&asked[i], &got[i])
		}
		return err
	})
	if err == nil {
		copy(verdicts, got)
		ok = allowed
	}
	return ok, err
}

func (l *fakeLink) Descriptors(context.Context, []decider.Request, bool, []decider.Verdict) (bool, error) {
	panic("a Ring sends batches")
}

func (l *fakeLink) AppendGrantID([]byte, decider.Grant, string) []byte {
	panic("the id comes with the verdict")
}

// result has a member return a value.
func result[T any](ctx context.Context, l *fakeLink, f func(ctx context.Context, n *node) (T, error)) (T, error) {
	got := new(T)
	err := l.do(ctx, func(ctx context.Context, n *node) (err error) {
		*got, err = f(ctx, n)
		return err
	})
	if err != nil {
		return *new(T), err
	}
	return *got, nil
}

func (l *fakeLink) Settle(ctx context.Context, key, id string, n int) (decider.Settlement, error) {
	return result(ctx, l, func(ctx context.Context, to *node) (decider.Settlement, error) {
		return to.serves.Settle(ctx, key, id, n)
	})
}

func (l *fakeLink) Acquire(ctx context.Context, req decider.LeaseRequest) (decider.Lease, error) {
	return result(ctx, l, func(ctx context.Context, to *node) (decider.Lease, error) { return to.serves.Acquire(ctx, req) })
}

func (l *fakeLink) Renew(ctx context.Context, key, id string, ttl time.Duration) (decider.Lease, error) {
	return result(ctx, l, func(ctx context.Context, to *node) (decider.Lease, error) { return to.serves.Renew(ctx, key, id, ttl) })
}

func (l *fakeLink) Return(ctx context.Context, key, id string, o weir.Outcome) error {
	return l.do(ctx, func(ctx context.Context, to *node) error { return to.serves.Return(ctx, key, id, o) })
}

func (l *fakeLink) Exchange(ctx context.Context, x *decider.LeafExchange, got *decider.LeafAnswer) error {
	answer, err := result(ctx, l, func(ctx context.Context, to *node) (got decider.LeafAnswer, err error) {
		return got, to.serves.Exchange(ctx, x, &got)
	})
	*got = answer
	return err
}

func (l *fakeLink) Explain(ctx context.Context, key string) (decider.Explanation, error) {
	return result(ctx, l, func(ctx context.Context, to *node) (decider.Explanation, error) { return to.serves.Explain(ctx, key) })
}

func (l *fakeLink) Top(ctx context.Context, n int) ([]decider.Seen, error) {
	return result(ctx, l, func(ctx context.Context, to *node) ([]decider.Seen, error) { return to.serves.Top(ctx, n) })
}

func (l *fakeLink) Call(ctx context.Context, name string, body []byte) ([]byte, error) {
	body = slices.Clone(body)
	l.f.mu.Lock()
	from := l.f.nodes[l.from]
	l.f.mu.Unlock()
	if from == nil {
		return nil, wire.ErrUnavailable
	}
	return result(ctx, l, func(ctx context.Context, to *node) ([]byte, error) {
		return to.Calls()[name](ctx, wire.Info{Node: from.cfg.Node}, body)
	})
}

// ownedBy returns a key that a member owns.
func (f *fleet) ownedBy(name string) string {
	f.t.Helper()
	for _, n := range f.nodes {
		for i := range 1000 {
			key := fmt.Sprintf("key:%d", i)
			if n.view.Load().owner(n.server.RouteKey(key)) == name {
				return key
			}
		}
	}
	f.t.Fatalf("%s owns no key", name)
	return ""
}

// slotOf returns the slot of a key.
func (f *fleet) slotOf(key string) *slot.Set {
	set := new(slot.Set)
	set.Add(slot.Of(key))
	return set
}

// take asks a member for tokens, and returns how many it gives of n, and the step of the last.
func (f *fleet) take(at, key string, n int) (given int, step decider.Step) {
	f.t.Helper()
	for range n {
		var v decider.Verdict
		if err := f.nodes[at].Decide(context.Background(), &decider.Request{Key: key, N: 1}, &v); err != nil {
			f.t.Fatalf("%s: %v", at, err)
		}
		if step = v.Step; v.OK {
			given++
		}
	}
	return given, step
}

// statuses returns what a member knows about all, such as "live live dead".
func (f *fleet) statuses(at string) (text string) {
	w := f.nodes[at].view.Load()
	for i, name := range f.names {
		if i > 0 {
			text += " "
		}
		text += w.Status[name].String()
	}
	if !w.Quorum {
		text += ", no quorum"
	}
	return text
}

// want checks what members know about all.
func (f *fleet) want(statuses map[string]string) {
	f.t.Helper()
	for name, want := range statuses {
		if got := f.statuses(name); got != want {
			f.t.Errorf("%s knows %s, want %s", name, got, want)
		}
	}
}

// bucket is rules for all keys: a bucket of n tokens that is refilled in a period.
func bucket(n int, period time.Duration) *config.Rules {
	r := &config.Rules{Rules: []config.Rule{{Name: "all", Glob: "*", Quota: config.Quota{Rate: config.Rate{Count: n, Period: period}}}}}
	if err := r.Complete(); err != nil {
		panic(err)
	}
	return r
}

// owner returns the name of the owner of a slot; empty if there is none.
func (v *view) owner(at uint16) string {
	if v.owners == nil {
		return ""
	}
	return v.names[v.owners[at]]
}

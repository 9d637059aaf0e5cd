package ring

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/peer"
	"github.com/weir-go/weir/service/internal/ring/census"
	"github.com/weir-go/weir/service/internal/ring/handover"
	"github.com/weir-go/weir/service/internal/ring/leaves"
	"github.com/weir-go/weir/service/internal/ring/local"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// Defaults of Config.
const (
	DefaultTimeout  = 500 * time.Millisecond
	DefaultInterval = 250 * time.Millisecond
	DefaultSettle   = 2 * time.Second
	DefaultHold     = 5 * time.Second
)

// A Link is a decider.Decider by which a member decides: a *peer.Client.
type Link interface {
	decider.Decider
	Call(ctx context.Context, name string, body []byte) ([]byte, error)
	// Redial ends the pause before the next attempt to connect.
	Redial()
	Stats() peer.Stats
	Close() error
}

// Config configures a Ring. Local, Fallback, Node and Dial are required.
type Config struct {
	Local    local.Owner // decides about the keys that this node owns
	Fallback local.Share // decides about keys while their owner cannot be asked
	Node     string      // the id of this process, as in its wire.Info
	// Self is the name of this member. If empty, it is the member with a link that leads to Node.
	Self string
	// Strangers are members that this node does not list, and that list it: they can join the fleet, so every process that
	// opens a link must be trusted.
	Strangers bool
	// Dial returns the link to a member. The link calls onState after each change of its state.
	Dial func(m census.Member, onState func(peer.State)) (Link, error)

	// Timeout bounds a decision at another member. After it, this node decides by its share. If zero, DefaultTimeout.
	Timeout time.Duration
	// Interval is the time between two exchanges of notes with each member. If zero, DefaultInterval.
	Interval time.Duration
	// Settle is for how long requests that wait, and requests for leases, are held when the
	// owner of their key has just been lost, or has given the key up. If zero, DefaultSettle.
	Settle time.Duration
	// Hold is for how long requests for keys that have moved to this node are held until the
	// state of these keys arrives. If zero, DefaultHold.
	Hold time.Duration

	// OnChange, if not nil, is called after changes of what this node knows about the fleet, one call at a time.
	OnChange func(Change)
	// OnDegraded, if not nil, is called with a verdict that the owner has not made: at most once
	// a second. It must not keep the verdict.
	OnDegraded func(key string, v *decider.Verdict)
}

// A Ring is a decider.Decider for a member of a fleet. It is safe for concurrent use. It must be ended with End.
type Ring struct {
	cfg       Config
	start     time.Time
	view      atomic.Pointer[view]
	counts    counters
	joined    atomic.Bool  // it has had a quorum
	accepted  atomic.Bool  // all members that it could ask could ask it, at one time
	claiming  atomic.Int32 // claims in progress
	claims    *handover.Claims
	closes    atomic.Bool     // see Close
	ctx       context.Context // ends with End
	end       context.CancelFunc
	dismissed context.Context // ends with Close
	dismiss   context.CancelFunc
	work      sync.WaitGroup
	tells     chan Change
	uses      chan int // the number of members for the Fallback, when it has changed
	renewed   leaves.Renewals

	mu      sync.Mutex // guards what follows
	census  *census.Census
	places  map[string]*place
	unknown handover.Unknown
	kept    handover.Kept
	strays  handover.Strays
	leave   *handover.Leave // nil unless this node is shutting down
	differs []census.Difference
	closed  bool
}

// A place is the link to a member, and what it has told last.
type place struct {
	census.Member
	link   Link          // nil if it is known to be this node, or if there was an error
	quorum atomic.Bool   // the member sees more than half of the members
	soon   chan struct{} // of capacity 1: has an exchange of notes made at once
	stop   context.CancelFunc
	closed bool // guarded by Ring.mu
	// claimed is the process at the member that was asked for the state of all keys of this node.
	claimed string        // guarded by Ring.mu
	giving  chan struct{} // has room while no state goes to the member: it has that of one claim before the next one is answered

	forwarded, failed atomic.Uint64
}

var _ decider.Decider = (*Ring)(nil)

// New returns a Ring without members: see Use.
func New(cfg Config) *Ring {
	cfg.Timeout, cfg.Interval = cmp.Or(cfg.Timeout, DefaultTimeout), cmp.Or(cfg.Interval, DefaultInterval)
	cfg.Settle, cfg.Hold = cmp.Or(cfg.Settle, DefaultSettle), cmp.Or(cfg.Hold, DefaultHold)
	r := &Ring{
		cfg: cfg, start: time.Now(), census: census.New(cfg.Node, cfg.Self), places: map[string]*place{},
		uses: make(chan int, 1), tells: make(chan Change, maxTells),
	}
	r.claims = handover.NewClaims(cfg.Node, 2*maxClaim, r.now)
	r.ctx, r.end = context.WithCancel(context.Background())
	r.dismissed, r.dismiss = context.WithCancel(context.Background())
	r.view.Store(newView(census.Survey{}, nil))
	r.work.Go(r.tell)
	r.work.Go(r.useFallback)
	return r
}

// maxTells bounds the changes that OnChange is not called with yet. Further ones are dropped.
const maxTells = 1024

// now returns the time since the Ring was made.
func (r *Ring) now() time.Duration { return time.Since(r.start) }

// End ends all links and goroutines.
func (r *Ring) End() {
	r.mu.Lock()
	r.closed = true
	for _, p := range r.places {
		r.closeLocked(p)
	}
	r.mu.Unlock()
	r.end()
	r.work.Wait()
}

// closeLocked ends the exchange of notes, and closes the link.
func (r *Ring) closeLocked(p *place) {
	if p.stop(); p.link == nil || p.closed {
		return
	}
	p.closed = true
	r.work.Go(func() { _ = p.link.Close() }) // not here: the link waits for calls of onState
}

// Use sets the list of members. The order does not matter. Members that others list belong to the fleet too. It returns
// the errors of links that cannot be made.
func (r *Ring) Use(members []census.Member) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.census.List(r.now(), members)
	return r.refreshLocked()
}

// placeLocked makes places for new members, and removes those of members that are gone.
func (r *Ring) placeLocked(s *census.Survey) error {
	for _, name := range s.Removed {
		if p := r.places[name]; p != nil {
			r.closeLocked(p)
			delete(r.places, name)
		}
	}
	var failed []error
	for _, m := range s.Added {
		if err := r.addLocked(m); err != nil {
			failed = append(failed, err)
		}
	}
	return errors.Join(failed...)
}

// addLocked adds a member and its link.
func (r *Ring) addLocked(m census.Member) error {
	ctx, stop := context.WithCancel(r.ctx)
	p := &place{Member: m, soon: make(chan struct{}, 1), giving: make(chan struct{}, 1), stop: stop}
	r.places[m.Name] = p
	if m.Name == r.census.Self() || m.URL == "" {
		return nil
	}
	link, err := r.cfg.Dial(m, func(s peer.State) { r.linked(p, s) })
	if err != nil {
		return err
	}
	p.link = link
	r.work.Go(func() { r.exchange(ctx, p) })
	return nil
}

// linked notes the state of a link.
func (r *Ring) linked(p *place, s peer.State) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.places[p.Name] != p || r.closed {
		return
	}
	self := r.census.Self()
	r.census.Link(r.now(), p.Name, s.Up, s.Leaving, s.Peer.Node)
	if self == "" && r.census.Self() == p.Name { // the link leads to this process
		r.closeLocked(p)
	}
	_ = r.refreshLocked() // errors of members that others list, which know of them
	r.noteSoonLocked()
}

// noteSoonLocked has notes exchanged with all members at once.
func (r *Ring) noteSoonLocked() {
	for _, p := range r.places {
		select {
		case p.soon <- struct{}{}:
		default:
		}
	}
}

// refreshLocked makes a view of what is known now, if that has changed. It returns the errors of links that cannot be made.
func (r *Ring) refreshLocked() error {
	if r.closed {
		return nil
	}
	was := r.view.Load()
	s := r.census.Survey(r.now())
	failed := r.placeLocked(&s)
	lost, stray := r.loseLocked(was, &s), r.strays.Take(was.decides, r.now())
	r.reportListsLocked(s.Differs)
	defer func() {
		if s.Accepted {
			r.accepted.Store(true) // after the claims have begun
		}
	}()
	if was.Self == s.Self && was.Quorum == s.Quorum && was.Members == s.Members && maps.Equal(was.Status, s.Status) && len(s.Removed) == 0 && stray.Len() == 0 {
		return failed
	}
	next := newView(s, r.places)
	for i, name := range next.names {
		next.since[i] = r.census.Since(name)
	}
	r.gainLocked(was, next, lost, stray) // before requests are decided here
	r.view.Store(next)
	if r.leave != nil && !next.HasHeirs() {
		r.leave.End()
	}
	if next.Quorum {
		r.joined.Store(true)
	}
	close(was.over)
	r.claimLateLocked(next)
	r.reportLocked(was, next)
	if s.Members != was.Members {
		select { // only the last number counts
		case <-r.uses:
		default:
		}
		r.uses <- s.Members
	}
	if s.Quorum != was.Quorum {
		r.noteSoonLocked()
	}
	return failed
}

// useFallback changes the shares of the Fallback when the number of members has changed.
func (r *Ring) useFallback() {
	for {
		select {
		case n := <-r.uses:
			_ = r.cfg.Fallback.Use(r.cfg.Local.Rules(), max(n, 1)) // no error: the rules are in force
		case <-r.ctx.Done():
			return
		}
	}
}

// Reload puts rules into force that the server has already accepted: see server.Server.Reload.
func (r *Ring) Reload(rules *config.Rules) error {
	return r.cfg.Fallback.Use(rules, max(r.view.Load().Members, 1))
}

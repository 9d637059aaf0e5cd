// Package allocator shares a rate limit out among leaves: processes that decide by
// themselves, each within an assignment.
//
// A leaf reports how much of the limit it wants, and gets an assignment: a rate, a burst
// and a time to live.
//
//	a := allocator.New(allocator.Config{Limit: allocator.Limit{Rate: 1000, Burst: 100}, TTL: 30 * time.Second})
//	pod7 := &allocator.Member{Session: &session}
//	got, err := a.Report(now, pod7, allocator.Report{Wants: 120, Has: 80})
//
// A Member is the part of a leaf in one Allocator. A Session is the lease of a leaf: to
// renew it extends the assignments of the leaf in all Allocators, in constant time.
//
// # Fairness
//
// Shares are max-min fair by weight (Bertsekas and Gallager, Data Networks, 6.5.2): no
// leaf gets more than it wants while another one of the same weight gets less than it
// wants and less than that one. While all get what they want, each also gets a part of a half of
// the rest, so that it can grow at once: at most half of what is free. The other half is for changes of shares.
//
// The wants of a leaf are measured, and requests come in at random. A leaf with exactly the mean
// rate would deny some. So leaves that get all they want also get a little more than that: together
// up to a hundredth of what the others get. They also get the burst that they need, in proportion to the
// square root of what they want. A leaf that wants much more than it gets uses each token, and needs little
// burst. All leaves get a part of the burst that none needs, in proportion to their rates: a leaf alone has all
// of it.
//
// # Contention
//
// A limit is contended while leaves want more than there is, or while one lacks a part of
// what it wants that others still have. Config.Watch names the members that should report
// because their shares have changed. Between two such calls, shares change by at most
// a hundredth.
//
// A member with less than nine tenths of its share comes first: it gets what others give back, and others get
// what it does not need.
//
// # No overshoot
//
// At each instant, the assignments that leaves may be using add up to at most the limit. An
// answer can be late or lost, so what a leaf had counts until a report shows that the
// leaf has a smaller assignment, or until the assignment ends. A change of shares
// takes effect over two reports of each leaf.
//
// If a leaf starts with an empty bucket, and keeps its tokens, but not more than the burst,
// when its assignment changes, then all leaves together spend at most Burst + Rate·t in a
// time t.
//
// # Lost leaves
//
// If a session ends without a word, the leaf has crashed, or is cut off. A leaf that is cut off may go
// on with the limit divided by the number of leaves. So that part of what it had is kept for it,
// until it is back or Config.Reserve is over: others do not get it.
//
// # Restart
//
// Adopt tells a new Allocator what leaves have, as far as the one before it has left it. Until
// Config.Learn there may be leaves that have more, or of which it does not know: it assigns each leaf
// what the leaf says it has, as Doorman does (github.com/youtube/doorman, doc/design.md), and half of
// what is free to a leaf that has nothing and cannot wait: see Report.Join.
//
// The package is pure: it takes each instant as an argument.
package allocator

import (
	"errors"
	"math"
	"time"

	"github.com/weir-go/weir/internal/heap"
)

// Config configures an Allocator.
type Config struct {
	Limit Limit
	// TTL is how long an assignment is valid without another report, > 0.
	TTL time.Duration
	// Silence is how long an assignment without another report stays valid while the leaf
	// renews its Session. If zero, four times the TTL.
	Silence time.Duration
	// Learn is the instant until which leaves get what they say they have. It may change.
	Learn time.Duration
	// Reserve is for how long a part of the limit is kept for a leaf that is lost: its Session
	// has ended, but not by End. If zero, none is. See Allocator.SetReserves.
	Reserve time.Duration
	// Looks is set if the caller calls Member.Look when the Session of a Member has ended. Otherwise
	// the Allocator looks at each Member once in a time to live, whether its Session goes on or not.
	Looks bool
	// Watch, if not nil, is called for each Member that should report because its share has
	// changed by the report of another. It must not call the Allocator.
	Watch func(*Member)
	// Ended, if not nil, is called for each Member that leaves because its assignment has
	// ended. It must not call the Allocator.
	Ended func(*Member)
}

// A Report tells the demand of a leaf.
type Report struct {
	// Wants is the rate that the leaf would use if it had no limit, in tokens a second.
	Wants float64
	// Has is the rate of the assignment that the leaf uses now; 0 without one.
	Has float64
	// Weight is the leaf's part in proportion to others, > 0. If zero, 1.
	Weight float64
	// Keep lets the leaf keep the rate that it has while its share differs from that by less
	// than this part of it: in [0, 1). Leaves that lose tokens by a change need it.
	Keep float64
	// Join tells that the leaf cannot use the limit in another way before its next report, and does not know yet what it wants. If
	// it has no assignment, it gets half of what is free or more, while there is enough for all. Before Config.Learn it gets half
	// at most, and without Join nothing.
	Join bool
}

// An Assignment bounds the use by a leaf until an instant.
type Assignment struct {
	Limit
	// Until is when the assignment ends, unless there is another report or the Session is
	// renewed.
	Until time.Duration
	// Contended is set if the leaves want more than there is. It stays set until they want
	// less than nine tenths.
	Contended bool
	// Short is set if the leaf gets less than its share, because others still have it.
	Short bool
}

// ErrReport is the error of Report.
var ErrReport = errors.New("allocator: wants, has and weight must be finite numbers and not negative, keep must be in [0, 1)")

// An Allocator shares one limit out. New makes one. It is not safe for concurrent use. A
// Report takes time in proportion to the logarithm of the number of members. The members
// with other shares are looked for when shares have changed by a hundredth.
type Allocator struct {
	cfg     *Config
	check   time.Duration // not after the first instant at which an assignment ends
	limit   Limit
	quantum float64 // all assigned rates are multiples of it
	held    float64 // sum of Member.held
	bursts  float64 // sum of Member.heldBurst
	guessed float64 // the part of held that is a guess: see Adopt
	wants   demands
	reservation
	contention
	expiry heap.Heap[*Member] // all members
}

// New returns an Allocator. It keeps the Config, of which only Learn may change, and which
// Allocators can share. It panics if the Config is invalid.
func New(cfg *Config) *Allocator {
	a := new(Allocator)
	a.Init(cfg)
	return a
}

// Init is New for an Allocator that is a part of something else.
func (a *Allocator) Init(cfg *Config) {
	if cfg.TTL <= 0 || cfg.Silence < 0 {
		panic("allocator: TTL must be positive, and Silence not negative")
	}
	*a = Allocator{cfg: cfg, check: math.MaxInt64, contention: contention{told: math.Inf(1)}}
	a.expiry = *heap.New(endsFirst).Track(moved)
	a.SetLimit(cfg.Limit)
}

func endsFirst(m, n *Member) bool { return m.check < n.check }

func moved(m *Member, at int) { m.at = int32(at) }

// Report takes a report about a Member, which joins if it is new, and returns its
// assignment from now on. It panics if the Member is in another Allocator.
func (a *Allocator) Report(now time.Duration, m *Member, r Report) (Assignment, error) {
	if r.Weight == 0 {
		r.Weight = 1
	}
	if !valid(r.Wants) || !valid(r.Has) || !valid(r.Weight) || !valid(r.Wants/r.Weight) || !(r.Keep >= 0 && r.Keep < 1) {
		return Assignment{}, ErrReport
	}
	a.Expire(now)
	a.enter(now, m, r)
	level := a.level()
	share := level.share(m)
	free := max(a.limit.Rate-(a.held-m.held), 0)
	rate, uses, confirmed := share, min(r.Has, m.held), math.Abs(r.Has-m.rate) < distinct/2
	joins := r.Join && r.Has == 0 && m.held == 0
	spare := joins && math.IsInf(level.level, 1)
	if spare {
		rate = max(share, free/2)
	}
	if now < a.cfg.Learn {
		if rate = min(rate, free/2); !joins {
			rate = r.Has
		}
		free += a.guessed
		uses = min(r.Has, free)
		level.learnt(a.limit)
	}
	if need := max(m.wants()+level.bonus*m.root(), uses); rate > need {
		rate = min(rate, need+max(free-need, 0)/2) // others may have more than they want, until their next reports
	}
	if math.Abs(rate-uses) < r.Keep*uses {
		rate = uses
	}
	rate = math.Floor(min(rate, a.available(m, free, rate, uses))/a.quantum) * a.quantum
	if confirmed && math.Abs(rate-m.rate) < distinct && level.burst(m, rate) < m.burst {
		// So that the next report shows which burst the leaf has.
		rate = math.Floor(max(min(rate, m.rate)-distinct, 0)/a.quantum) * a.quantum
	}
	a.hold(m, max(rate, math.Ceil(uses/a.quantum)*a.quantum))
	a.assignBurst(m, &level, rate, confirmed, spare)
	m.rate = rate
	a.setShort(m, now >= a.cfg.Learn && (rate < min(share, m.wants())*(1-tell) || !spare && level.lacksBurst(m)))
	a.setLack(m, rate, share)
	a.contend(now, m, &level)
	return Assignment{Limit{m.rate, m.burst}, m.ends(), a.contended, m.short}, nil
}

// enter records the demand of a member.
func (a *Allocator) enter(now time.Duration, m *Member, r Report) {
	m.reported = now
	a.setGuess(m, false)
	d := demand{level: r.Wants / r.Weight, weight: r.Weight}
	switch {
	case m.in == nil:
		m.in = a
		m.check = m.next(now, now+a.cfg.TTL)
		a.expiry.Push(m)
		a.joined()
		a.check = min(a.check, m.check)
	case m.in != a:
		panic("allocator: the Member is in another Allocator")
	case m.reserved:
		a.unreserve(m)
	case m.demand == d:
		return
	default:
		a.wants.remove(m.demand)
	}
	m.demand = d
	a.wants.insert(d)
}

// Expire takes back the assignments that have ended at the instant now, but see Config.Looks. Report
// does so, too.
func (a *Allocator) Expire(now time.Duration) {
	if a.check <= now {
		a.prefetchMembers()
	}
	for a.check <= now {
		m := a.expiry.Min()
		a.check = m.check
		if m.check > now {
			return
		}
		if m.check = a.look(now, m); m.check > now {
			a.expiry.Fix(0)
			continue
		}
		a.drop(m)
		if a.cfg.Ended != nil {
			a.cfg.Ended(m)
		}
	}
}

// Members returns the number of members, which have an assignment or a part of the limit that is
// kept for them. Expire first.
func (a *Allocator) Members() int { return a.expiry.Len() }

func (a *Allocator) drop(m *Member) {
	a.setShort(m, false)
	a.setLack(m, 0, 0)
	a.setGuess(m, false)
	if m.reserved {
		a.unreserve(m)
	} else {
		a.wants.remove(m.demand)
	}
	a.hold(m, 0)
	a.holdBurst(m, 0)
	a.expiry.Remove(int(m.at))
	m.in, m.rate, m.burst = nil, 0, 0
	if a.expiry.Len() == 0 { // exactly, also after other quanta
		a.held, a.bursts, a.guessed, a.lacks, a.kept, a.check = 0, 0, 0, 0, Limit{}, math.MaxInt64
	}
}

// Held returns the most that all members together may be using.
func (a *Allocator) Held() float64 { return a.held }

// HeldBurst returns the greatest burst that all members together may be using.
func (a *Allocator) HeldBurst() float64 { return a.bursts }

// TTL returns Config.TTL.
func (a *Allocator) TTL() time.Duration { return a.cfg.TTL }

// Wants returns the rate that all members together want.
func (a *Allocator) Wants() float64 { return a.wants.all().wants }

func (a *Allocator) hold(m *Member, rate float64) {
	a.held += rate - m.held
	if m.guess {
		a.guessed += rate - m.held
	}
	a.freed += max(m.held-rate, 0)
	m.held = rate
}

package client

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/internal/leaf"
	"github.com/weir-go/weir/internal/leafset"
)

// First selects how a leaf decides about a key that the server has not assigned a rate yet. The
// option unassigned of a rule is for weir serve --upstream, not for a Client.
type First uint8

const (
	AskServer  First = iota // the server decides about each request, as without Config.Leaf
	FirstShare              // by Config.LocalQuota, with a full bucket
	FirstDeny               // it denies
)

// LeafConfig makes a Client a leaf. The zero LeafConfig is useful.
//
// A leaf decides Take and For by itself. The server assigns it a rate and a burst for each
// key in use, by its measured demand, and divides a limit that is too small for all demands
// fairly. The leaf reports its use to the server in one request for all keys, every 100 ms to 5
// seconds. Calls of For wait in the order of arrival at this Client. Leases are granted by the
// server.
//
// All Clients together keep to the limit. Its burst is divided, too: if the part of a Client is
// less than the cost of a request, its bucket fills up to that cost while there are such
// requests. A key that few of many Clients use, a few times a minute, is better decided by a
// Client without LeafConfig.
//
// While the server is away, the last assignment holds until its time to live ends. From then
// on Config.Away decides: Local allows the limit that the server told, divided by the number
// of leaves that it told or, if that is greater, by Config.Instances; if it told none, Config.LocalQuota.
type LeafConfig struct {
	// Name identifies the Client at the server. Two Clients must not have the same. If empty,
	// it is random.
	Name string
	// First selects how a key is decided that has no assignment. FirstShare requires
	// Config.LocalQuota.
	First First
	// MaxKeys bounds the keys that the Client decides by itself. The server decides about
	// further ones. If zero, 100,000.
	MaxKeys int
}

func (l *LeafConfig) validate(local gcra.Quota) error {
	switch {
	case l.First > FirstDeny:
		return fmt.Errorf("client: Leaf.First = %d: must be AskServer, FirstShare or FirstDeny", l.First)
	case l.First == FirstShare && local == gcra.Quota{}:
		return fmt.Errorf("client: Leaf.First = FirstShare: needs LocalQuota")
	case l.MaxKeys < 0:
		return fmt.Errorf("client: Leaf.MaxKeys = %d: must be >= 0", l.MaxKeys)
	case len(l.Name) > maxLeafName:
		return fmt.Errorf("client: Leaf.Name has %d bytes: must have at most %d", len(l.Name), maxLeafName)
	}
	return nil
}

// maxLeafName bounds the name of a leaf, in bytes.
const maxLeafName = 255

// minExchange bounds Config.Timeout for exchanges from below: they may be large, and no
// caller waits for them.
const minExchange = time.Second

// maxAssignment bounds the answer about one key, in bytes, without the key.
const maxAssignment = 512

// leafMode is the leaf of a Client, and its Upstream.
type leafMode struct {
	c       *Client
	set     *leafset.Set
	policy  leaf.Policy
	refused atomic.Uint64 // exchanges
}

// newLeaf returns the leaf of a Client that is not closed.
func (c *Client) newLeaf() (*leafMode, error) {
	cfg := c.cfg.Leaf
	l := &leafMode{c: c, policy: leaf.Policy{Leaves: c.cfg.Instances}}
	switch c.cfg.Away {
	case Allow:
		l.policy.Away = leaf.AllowAway
	case Local:
		l.policy.Away = leaf.ShareAway
		if c.cfg.LocalQuota == gcra.Unlimited() {
			l.policy.Away = leaf.ShareOrPass
		}
	}
	switch cfg.First {
	case FirstShare:
		l.policy.First = leaf.ShareFirst
	case FirstDeny:
		l.policy.First = leaf.DenyFirst
	}
	if c.cfg.LocalQuota != (gcra.Quota{}) && (l.policy.Away != leaf.ShareOrPass || cfg.First == FirstShare) { // the part of each Client
		const most = 1e15 // instead of no limit
		n := float64(c.cfg.Instances)
		l.policy.Limit = leaf.Limit{
			Rate: min(c.cfg.LocalQuota.Rate(), most) * n, Burst: min(float64(c.cfg.LocalQuota.Burst()), most) * n,
		}
	}
	own := leaf.Config{Name: cfg.Name, MaxKeys: cfg.MaxKeys, MaxWaiters: c.cfg.Queue, Share: c.cfg.Away == Local}
	if own.Name == "" {
		own.Name = rand.Text()
	}
	var err error
	l.set, err = leafset.New(leafset.Config{Config: own, Upstream: l, Timeout: max(c.cfg.Timeout, minExchange)})
	return l, err
}

// Exchange posts an exchange: see leafset.Upstream. A server that refuses it, because it is too
// old or does not accept the token, assigns nothing.
func (l *leafMode) Exchange(ctx context.Context, x *leaf.Exchange) (leaf.Answer, error) {
	body, err := json.Marshal(x)
	if err != nil {
		return leaf.Answer{}, fmt.Errorf("client: %w", err)
	}
	var a leaf.Answer
	most := int64(len(body)) + maxAssignment*int64(len(x.Reports)) + maxWatch
	_, err = l.c.exchange(ctx, &call{method: http.MethodPost, path: target("assign"), body: body, most: most, take: func(body []byte) error {
		if err := json.Unmarshal(body, &a); err != nil {
			return err
		}
		if a.TTLMS <= 0 || len(a.Assignments) != len(x.Reports) {
			return fmt.Errorf("ttlMs = %d, %d assignments for %d reports", a.TTLMS, len(a.Assignments), len(x.Reports))
		}
		return nil
	}})
	if _, refused := err.(*StatusError); refused {
		l.refused.Add(1)
		return leaf.Answer{TTLMS: 30_000, NextMS: 5_000}, nil
	}
	return a, err
}

// maxWatch bounds the keys of an answer that the server wants reports of, in bytes.
const maxWatch = 16 << 20

// takeByLeaf decides about tokens without the server. If it does not, decided is false.
func (c *Client) takeByLeaf(ctx context.Context, key string, n int) (d weir.Decision, decided bool, err error) {
	switch {
	case ctx.Err() != nil:
		return d, false, ctx.Err()
	case c.ctx.Err() != nil:
		return d, false, errClosed
	}
	d, step := c.leaf.set.Take(key, n, &c.leaf.policy)
	return d, step != leaf.Ask, nil
}

// acquireByLeaf takes or waits for tokens without the server. If it does not, decided is
// false.
func (c *Client) acquireByLeaf(ctx context.Context, key string, n int) (_ weir.Permit, decided bool, err error) {
	if c.ctx.Err() != nil {
		return weir.Permit{}, false, errClosed
	}
	step, err := c.leaf.set.Wait(ctx, key, n, c.cfg.MaxWait, &c.leaf.policy)
	if err != nil || step == leaf.Ask {
		return weir.Permit{}, false, err
	}
	return c.leafPermit(key, n), true, nil
}

// acquireByLeafAway decides about a call for which the server was to be asked, and did not
// answer.
func (c *Client) acquireByLeafAway(key string, n int) (weir.Permit, error) {
	d, _ := c.leaf.set.TakeAway(key, n, &c.leaf.policy)
	if !d.OK {
		return weir.Permit{}, weir.Reject(weir.OverRate, d.RetryAfter)
	}
	return c.leafPermit(key, n), nil
}

// closeLeaf gives the assignments back, unless the server is away.
func (c *Client) closeLeaf() {
	if c.leaf == nil {
		return
	}
	ctx, stop := context.WithCancel(c.returns.ctx)
	defer stop()
	if c.circuit.Open() {
		stop()
	}
	_ = c.leaf.set.Close(ctx)
}

// leafPermit returns the Permit for tokens that the leaf has taken.
func (c *Client) leafPermit(key string, n int) weir.Permit {
	g := &leafGrant{set: c.leaf.set, key: key, at: c.leaf.set.Now(), n: n}
	g.owner = g
	return weir.OwnedPermit(&g.owner, weir.Grant{N: n})
}

// A leafGrant owns the Permit for tokens of a leaf.
type leafGrant struct {
	owner weir.Owner // itself
	set   *leafset.Set
	key   string
	at    time.Duration // on the clock of the set
	n     int
}

// Use settles the cost at Release, as a grant of the server does.
func (g *leafGrant) Use(_ weir.Grant, n int) int { return n }

func (g *leafGrant) Release(held weir.Grant, _ weir.Outcome) {
	if held.N != g.n {
		g.set.Settle(g.key, g.at, g.n, held.N)
	}
}

// LeafStats are the state and the counts of a leaf.
type LeafStats struct {
	Keys     int // known
	Assigned int // keys with an assignment that is valid
	Waiting  int // calls that wait here

	Exchanges uint64 // with the server
	Refused   uint64 // exchanges that the server refused: no key has an assignment, and the server decides
	Over      uint64 // calls with keys beyond MaxKeys

	// Decisions by their step, from the best to the worst, allowed or not. Those by Last, Share and
	// Rule were made without the server.
	Asked      uint64 // the server was asked, or was to be asked
	ByAssigned uint64 // by an assignment
	ByLast     uint64 // by an assignment that was still valid, while the server was away
	ByShare    uint64 // by the Client's share
	ByRule     uint64 // as Away or First says
}

func (c *Client) leafStats() LeafStats {
	if c.leaf == nil {
		return LeafStats{}
	}
	n := c.leaf.set.Stats()
	by := func(s leaf.Step) uint64 { return n.Allowed[s] + n.Denied[s] }
	return LeafStats{
		Keys: n.Keys, Assigned: n.Assigned, Waiting: n.Waiting,
		Exchanges: n.Exchanges, Refused: c.leaf.refused.Load(), Over: n.Over,
		Asked: by(leaf.Ask), ByAssigned: by(leaf.Assigned), ByLast: by(leaf.Last), ByShare: by(leaf.Share), ByRule: by(leaf.ByRule),
	}
}

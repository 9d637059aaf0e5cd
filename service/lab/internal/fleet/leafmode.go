//go:build !js

package fleet

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/weir-go/weir/internal/leaf"
	"github.com/weir-go/weir/internal/leafsession"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/server/clock"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// serverMemory bounds the counts of the simulated server, in bytes.
const serverMemory = 32 << 20

// leafPolicy is leaf mode: leafsession.Set in the leaves, and server.Server as the upstream.
type leafPolicy struct {
	sim    *Sim
	rules  *config.Rules
	policy leaf.Policy
}

func newLeafPolicy(s *Sim) (*leafPolicy, error) {
	p := &leafPolicy{sim: s, rules: &config.Rules{}}
	for _, k := range s.sc.Keys {
		r := config.Rule{Name: k.Name, Key: k.Name, Quota: config.Quota{Rate: config.Rate{Count: k.Rate, Period: time.Second}, Burst: k.Burst}}
		r.Away = config.Away(s.sc.Fleet.Away)
		if k.Count > 0 {
			r.Key, r.Glob = "", k.Name+"-*"
		}
		p.rules.Rules = append(p.rules.Rules, r)
	}
	switch s.sc.Fleet.Away {
	case "allow":
		p.policy.Away = leaf.AllowAway
	case "share":
		p.policy.Away = leaf.ShareAway
	}
	switch s.sc.Fleet.Unassigned {
	case "deny":
		p.policy.First = leaf.DenyFirst
	case "share":
		p.policy.First = leaf.ShareFirst
	}
	return p, p.rules.Complete()
}

func (p *leafPolicy) node(_ time.Duration, name string, i int, _ *rand.Rand) node {
	return &leafNode{policy: p, leaf: i, set: leafsession.NewSet(leaf.Config{Name: name, Share: p.policy.Away == leaf.ShareAway})}
}

func (p *leafPolicy) centre(now time.Duration) centre {
	c := &serverCentre{began: now}
	s, err := server.New(server.Config{Rules: p.rules, Memory: serverMemory, AssignmentTTL: p.sim.sc.Fleet.TTL, Clock: clock.Manual(&c.now)})
	if err != nil {
		panic(err) // the rules were complete
	}
	c.server = s
	return c
}

func (p *leafPolicy) leave(_ time.Duration, n node) any { return n.(*leafNode).set.Leave() }

// A leafNode is a leafsession.Set, and what its shell does.
type leafNode struct {
	policy *leafPolicy
	leaf   int
	set    *leafsession.Set
	first  float64 // the rate of the last assignment of the first key
}

// stepOf has the steps of leaf.Step, but for Ask.
var stepOf = [...]step{leaf.Assigned: assigned, leaf.Last: last, leaf.Share: share, leaf.ByRule: byRule}

func (n *leafNode) allow(now time.Duration, key int32) (bool, step) {
	name := n.policy.sim.keys[key].name
	d, step := n.set.Take(now, name, 1, &n.policy.policy)
	if step != leaf.Ask {
		return d.OK, stepOf[step]
	}
	if allowed, ok := n.policy.sim.decide(n.leaf, now, name); ok {
		return allowed, exact
	}
	return n.policy.policy.Away == leaf.AllowAway, byRule
}

func (n *leafNode) due() time.Duration { return n.set.Due() }

func (n *leafNode) send(now time.Duration) (any, int) {
	x := n.set.Exchange(now)
	own := *x
	own.Reports = append([]leaf.Report(nil), x.Reports...)
	return &own, len(own.Reports)
}

func (n *leafNode) receive(now time.Duration, answer any) {
	a, ok := answer.(*leaf.Answer)
	if !ok {
		n.set.Failed(now)
		return
	}
	n.set.Answered(now, a)
	for i := range a.Assignments {
		if a.Assignments[i].Key == n.policy.sim.keys[0].name {
			n.first = a.Assignments[i].Rate
		}
	}
}

func (n *leafNode) rate() float64 { return n.first }

// A serverCentre is a server.Server that lives in virtual time.
type serverCentre struct {
	server  *server.Server
	began   time.Duration
	now     time.Duration // since it began: the server's clock
	verdict decider.Verdict
}

func (c *serverCentre) answer(now time.Duration, message any) any {
	c.now = now - c.began
	x := decider.LeafExchange{Exchange: *message.(*leaf.Exchange)}
	got := &decider.LeafAnswer{}
	if err := c.server.Exchange(context.Background(), &x, got); err != nil {
		return nil
	}
	got.Resync = got.NeedsResync(&x)
	return &got.Answer
}

// decide decides about one token of a key.
func (c *serverCentre) decide(now time.Duration, key string) bool {
	c.now = max(c.now, now-c.began)
	err := c.server.Decide(context.Background(), &decider.Request{Key: key, N: 1}, &c.verdict)
	return err == nil && c.verdict.OK
}

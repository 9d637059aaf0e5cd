package decidertest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/peer"
	"github.com/weir-go/weir/service/internal/peer/serve"
	"github.com/weir-go/weir/service/internal/peer/wire"
	"github.com/weir-go/weir/service/internal/ring"
	"github.com/weir-go/weir/service/internal/ring/census"
	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// A member is one of a fleet.
type member struct {
	*ring.Ring
	local    *server.Server
	receiver decider.Decider
	site     *site
}

// A fleet is members that know each other. It asks the member that owns a key, or with remote each other member in
// turn; about a batch, by its first key.
type fleet struct {
	members []*member
	remote  bool

	mu     sync.Mutex     // guards what follows
	owners map[string]int // the indexes of members
	turn   int
	apart  bool // cut off from each other: a key is asked at one member
}

// newFleet returns a fleet of three.
func newFleet(remote bool) func(*testing.T, *config.Rules) (*node, error) {
	return func(t *testing.T, rules *config.Rules) (*node, error) {
		f := &fleet{remote: remote, owners: map[string]int{}}
		for range 3 {
			if err := f.start(t, rules); err != nil {
				return nil, err
			}
		}
		var all []census.Member
		for i := range f.members {
			all = append(all, census.Member{Name: fmt.Sprint(i), URL: fmt.Sprintf("http://%d", i)})
		}
		for _, m := range f.members {
			if err := m.Use(all); err != nil {
				return nil, err
			}
		}
		time.Sleep(6 * time.Second)
		return &node{Decider: f, reload: f.reload, reset: f.reset, close: f.close, cut: f.cut}, nil
	}
}

// start starts a member.
func (f *fleet) start(t *testing.T, rules *config.Rules) error {
	own := limits(rules)
	alone, err := server.NewFallback(own, config.AwayShare)
	if err != nil {
		return err
	}
	own.Fleet = "a secret of the whole fleet"
	local, err := server.New(own)
	if err != nil {
		return err
	}
	self := wire.Info{Node: fmt.Sprintf("node-%d", len(f.members))}
	m := &member{local: local}
	m.Ring = ring.New(ring.Config{
		Local: local, Fallback: alone, Node: self.Node, Interval: 2 * time.Second,
		Dial: func(to census.Member, onState func(peer.State)) (ring.Link, error) {
			var i int
			_, _ = fmt.Sscanf(to.URL, "http://%d", &i)
			return f.members[i].site.dial(peer.Config{Self: self, Silence: time.Minute, OnState: onState, Rules: local.Rules, Now: local.Now})
		},
	})
	m.receiver = m.Receiver()
	m.site = newSite(t, serve.Config{Decider: m.receiver, Self: self, Rules: local.Rules, Now: local.Now, Calls: m.Calls()})
	t.Cleanup(m.End)
	f.members = append(f.members, m)
	return nil
}

func (f *fleet) reload(rules *config.Rules) error {
	for _, m := range f.members {
		if err := errors.Join(m.local.Reload(rules), m.Ring.Reload(rules)); err != nil {
			return err
		}
	}
	return nil
}

func (f *fleet) reset(ctx context.Context, key string) ([]decider.Reset, error) {
	return f.at(key).Reset(ctx, key)
}

func (f *fleet) close(now bool) {
	for _, m := range f.members {
		m.Close(now)
	}
}

// cut cuts all members off from each other.
func (f *fleet) cut(cut bool) {
	f.mu.Lock()
	f.apart = cut
	f.mu.Unlock()
	for _, m := range f.members {
		m.site.cut(cut)
	}
	time.Sleep(ring.DefaultSettle)
	synctest.Wait()
}

// at returns the member to be asked about a key.
func (f *fleet) at(key string) *member {
	f.mu.Lock()
	defer f.mu.Unlock()
	owner, ok := f.owners[key]
	if !ok {
		for owner = range f.members {
			var v decider.Verdict
			if f.members[owner].receiver.Decide(context.Background(), &decider.Request{Key: key}, &v) != decider.ErrMoved {
				break
			}
		}
		f.owners[key] = owner
	}
	if !f.remote {
		return f.members[owner]
	}
	if !f.apart {
		f.turn++
	}
	return f.members[(owner+1+f.turn%2)%len(f.members)]
}

func (f *fleet) Decide(ctx context.Context, req *decider.Request, v *decider.Verdict) error {
	return f.at(req.Key).Decide(ctx, req, v)
}

func (f *fleet) Wait(ctx context.Context, req *decider.Request, v *decider.Verdict) error {
	return f.at(req.Key).Wait(ctx, req, v)
}

func (f *fleet) Batch(ctx context.Context, reqs []decider.Request, all bool, verdicts []decider.Verdict) (bool, error) {
	return f.at(reqs[0].Key).Batch(ctx, reqs, all, verdicts)
}

func (f *fleet) Descriptors(ctx context.Context, reqs []decider.Request, all bool, verdicts []decider.Verdict) (bool, error) {
	return f.at(reqs[0].Key).Descriptors(ctx, reqs, all, verdicts)
}

func (f *fleet) AppendGrantID(b []byte, g decider.Grant, key string) []byte {
	return f.at(key).AppendGrantID(b, g, key)
}

func (f *fleet) Settle(ctx context.Context, key, id string, n int) (decider.Settlement, error) {
	return f.at(key).Settle(ctx, key, id, n)
}

func (f *fleet) Acquire(ctx context.Context, req decider.LeaseRequest) (decider.Lease, error) {
	return f.at(req.Key).Acquire(ctx, req)
}

func (f *fleet) Renew(ctx context.Context, key, id string, ttl time.Duration) (decider.Lease, error) {
	return f.at(key).Renew(ctx, key, id, ttl)
}

func (f *fleet) Return(ctx context.Context, key, id string, o weir.Outcome) error {
	return f.at(key).Return(ctx, key, id, o)
}

func (f *fleet) Exchange(ctx context.Context, x *decider.LeafExchange, got *decider.LeafAnswer) error {
	return f.members[0].Exchange(ctx, x, got)
}

func (f *fleet) Explain(ctx context.Context, key string) (decider.Explanation, error) {
	return f.at(key).Explain(ctx, key)
}

func (f *fleet) Top(ctx context.Context, n int) ([]decider.Seen, error) {
	return f.members[0].Top(ctx, n)
}

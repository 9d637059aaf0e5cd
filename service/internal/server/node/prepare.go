package node

import (
	"github.com/weir-go/weir/internal/slot"
	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/server/rules"
)

// check returns an error of decider.Decider if a request brings a quota that is not valid
// or not allowed, or asks for tokens where rules only have leases.
func check(k *rules.Found, req *decider.Request) error {
	switch {
	case k.Unrated(req):
		return decider.ErrNoRate
	case req.Quota == nil:
		return nil
	case !k.Set.InWindow(req.Quota) && !req.Quota.Empty():
		if _, err := req.Quota.Interval(); err != nil {
			return err
		}
	}
	if !k.AllowsOwn() {
		return decider.ErrOwnQuota
	}
	return nil
}

// CheckRequests returns an error of decider.Decider if a request brings a quota that is not valid
// or not allowed, or asks for tokens where rules only have leases.
func (n *Node) CheckRequests(reqs []decider.Request) error {
	set := n.rules.Load()
	for i := range reqs {
		k := n.keys.Find(reqs[i].Key, set)
		if err := check(&k, &reqs[i]); err != nil {
			return err
		}
	}
	return nil
}

// Replaced prepares the descriptors of one request for decider.Decider.Batch: it sets quotas that
// are ignored to nil, and reports which requests take no tokens because the rule of another
// request replaces theirs. It returns nil if there are none. See decider.Decider.Descriptors.
func (n *Node) Replaced(reqs []decider.Request) []bool {
	set := n.rules.Load()
	set.DropQuotas(reqs)
	if !set.Replaces() {
		return nil
	}
	keys := make([]rules.Found, len(reqs))
	for i := range reqs {
		keys[i] = n.keys.Find(reqs[i].Key, set)
	}
	names := rules.Replaced(keys, reqs)
	if len(names) == 0 {
		return nil
	}
	replaced := make([]bool, len(reqs))
	for i := range reqs {
		replaced[i] = names[keys[i].Name(&reqs[i])]
	}
	return replaced
}

// Route returns the slot of a request: the owner of the slot decides the request.
func (n *Node) Route(req *decider.Request) uint16 {
	if req.Quota != nil { // the rules do not matter
		return slot.Of(req.Key)
	}
	return n.RouteKey(req.Key)
}

// RouteKey returns the slot of the leases and grants of a key, and of requests without a
// quota of their own.
func (n *Node) RouteKey(key string) uint16 {
	set := n.rules.Load()
	if set.RoutesByKey() {
		return slot.Of(key)
	}
	return n.keys.Find(key, set).Match.Route(key)
}

package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weir-go/weir/service/internal/daemon/leaflinks"
	"github.com/weir-go/weir/service/internal/peer/serve"
	"github.com/weir-go/weir/service/internal/peer/wire"
)

const (
	// tiersCall is the name of the call by which a leaf asks for the tiers from its upstream on.
	tiersCall = "leaf/tiers"
	// maxTiers bounds the instances that a request may pass from one upstream to the next.
	maxTiers = 8
	// tiersEvery is the time between two such calls.
	tiersEvery = time.Second
)

// A tierInfo is an instance with the URL of its upstream, which is empty if it has none.
type tierInfo struct {
	Node     string `json:"node"`
	Upstream string `json:"upstream,omitempty"`
}

// onTiers answers a leaf: this instance, its upstream, the upstream of that, and so on as far as this
// instance knows.
func (d *Daemon) onTiers(context.Context, wire.Info, []byte) ([]byte, error) {
	all := []tierInfo{{Node: d.node}}
	if d.tier != nil && d.tier.link != nil {
		all[0].Upstream = d.tier.url
		if above := d.tier.above.Load(); above != nil {
			all = append(all, *above...)
		}
	}
	return json.Marshal(all)
}

// watchTiers keeps track of the tiers above this instance until ctx ends. It stops the use of the
// upstream while this instance is one of them, and of too many.
func (t *tier) watchTiers(ctx context.Context, d *Daemon) {
	if t == nil || t.link == nil {
		return
	}
	tick := time.NewTicker(tiersEvery)
	defer tick.Stop()
	for {
		t.checkTiers(ctx, d)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// checkTiers asks the upstream once for the tiers above this instance.
func (t *tier) checkTiers(ctx context.Context, d *Daemon) {
	ctx, cancel := context.WithTimeout(ctx, tiersEvery)
	defer cancel()
	var all []tierInfo
	body, err := t.link.Call(ctx, tiersCall, nil)
	if err == nil {
		err = json.Unmarshal(body, &all)
	}
	switch {
	case errors.Is(err, wire.ErrUnknown): // an older version
	case err != nil:
		if !t.link.State().Up {
			t.above.Store(nil)
		}
		return
	}
	all, err = checkTiers(d.node, t.url, all)
	t.above.Store(&all)
	was := t.refused
	if t.refused = ""; err != nil {
		t.refused = err.Error()
	}
	switch {
	case t.refused == was:
	case err != nil:
		d.log.Error("the upstream cannot be used: decisions are degraded", "upstream", t.url, "error", err)
		t.Block(err)
	default:
		d.log.Info("the upstream can be used again", "upstream", t.url)
		t.Block(nil)
	}
}

// checkTiers checks the tiers above the instance node, whose upstream has a URL. It returns the tiers for the
// instance's own leaves: up to itself, if it is one of them.
func checkTiers(node, url string, all []tierInfo) ([]tierInfo, error) {
	if at := slices.IndexFunc(all, func(i tierInfo) bool { return i.Node == node }); at >= 0 {
		all = all[:at+1]
		way := []string{"this instance", url}
		for _, i := range all[:at] {
			way = append(way, i.Upstream)
		}
		way[len(way)-1] += " (this instance)"
		return all, fmt.Errorf("its upstreams are a cycle: %s: start one of them without --upstream", strings.Join(way, " -> "))
	}
	if len(all) > maxTiers {
		return all[:maxTiers+1], fmt.Errorf("there are more than %d upstreams, one above the other: %d", maxTiers, len(all))
	}
	return all, nil
}

// newLeafLinks returns the links of leaves of the Daemon.
func (d *Daemon) newLeafLinks() (*leaflinks.Links, error) {
	return leaflinks.New(serve.Config{
		Decider: d.asked, Blocking: d.blocking(), Self: wire.Info{Node: d.node, Version: d.cfg.Version}, Others: true,
		Rules: d.server.Rules, Now: d.server.Now, MaxConns: max(d.most/2, 1),
		Calls:     map[string]func(context.Context, wire.Info, []byte) ([]byte, error){tiersCall: d.onTiers},
		OnRefused: d.logRefused("a leaf was refused"),
	}, &d.guard)
}

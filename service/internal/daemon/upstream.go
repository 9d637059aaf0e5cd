package daemon

import (
	"cmp"
	"context"
	"crypto/rand"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/peer"
	"github.com/weir-go/weir/service/internal/peer/wire"
	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/upstream"
)

// An Upstream is the instance of which this one is a leaf.
type Upstream struct {
	Exchanges upstream.Config   // of exchanges
	Config    server.TierConfig // without the fields that name the two, and the hooks
}

// A tier is a Tier with its ways to the upstream, which are nil if that is the store.
type tier struct {
	*server.Tier
	url       string // of the upstream
	exchanges *upstream.Client
	link      *peer.Client

	above   atomic.Pointer[[]tierInfo] // the upstream, and the tiers above it
	refused string                     // why the upstream is not used; empty if it is. Only watchTiers uses it.
}

// farewell bounds the time in which the assignments are given back at the end.
const farewell = 2 * time.Second

// newTier makes the server of the rules as a leaf of the upstream.
func (d *Daemon) newTier() (err error) {
	to := d.cfg.Upstream
	t := &tier{url: to.Exchanges.URL}
	if t.exchanges, err = upstream.New(to.Exchanges); err != nil {
		return err
	}
	var ready atomic.Pointer[server.Tier]
	url := slog.String("upstream", to.Exchanges.URL)
	rules := func() *config.Rules {
		if t := ready.Load(); t != nil {
			return t.Rules()
		}
		return cmp.Or(d.cfg.Server.Rules, new(config.Rules))
	}
	t.link, err = peer.New(peer.Config{
		URL: to.Exchanges.URL, Path: wire.LeafPath, Token: to.Exchanges.Token, TLS: to.Exchanges.TLS,
		Self: wire.Info{Node: d.node, Version: d.cfg.Version}, OnState: d.logUpstream(url, rules), Rules: rules,
		Now: func() time.Duration {
			if t := ready.Load(); t != nil {
				return t.Now()
			}
			return 0
		},
	})
	if err != nil {
		return err
	}
	cfg := to.Config
	cfg.Name, cfg.Upstream, cfg.Assigner, cfg.Idle = rand.Text(), t.link, t.exchanges, true
	away := &awayLog{log: func(err error) {
		if err != nil {
			d.log.Error("the upstream does not answer: decisions are degraded", url, "meanwhile", meanwhile(cmp.Or(cfg.Away, config.AwayShare)), "error", err)
		} else {
			d.log.Info("the upstream answers again", url)
		}
	}}
	cfg.OnAway = away.note
	cfg.OnDegraded = func(key string, v *decider.Verdict) {
		d.log.Warn("decided without the upstream (a sample, at most one a second)", slog.String("key", key), "step", v.Step, "allowed", v.OK)
	}
	if t.Tier, err = server.NewTier(d.cfg.Server, cfg); err != nil {
		_ = t.link.Close()
		return err
	}
	ready.Store(t.Tier)
	t.awaitLink()
	d.tier, d.server, d.decider = t, t.Server, t.Tier
	return nil
}

// meanwhile says how an instance decides without its upstream.
func meanwhile(away config.Away) string {
	then := map[config.Away]string{config.AwayShare: "by its share of each limit", config.AwayAllow: "allows", config.AwayDeny: "denies"}[away]
	return "it decides by its last assignments, then " + then + ", unless a rule says otherwise (away)"
}

// firstLink bounds the time for the first connection to the upstream. An instance that has none
// starts all the same.
const firstLink = time.Second

// awaitLink waits for the first connection, or its failure, so that the first requests are asked.
func (t *tier) awaitLink() {
	for began := time.Now(); time.Since(began) < firstLink; time.Sleep(5 * time.Millisecond) {
		if st := t.link.State(); st.Up || st.Err != nil {
			return
		}
	}
}

// disconnect gives the assignments back, and ends the connections.
func (t *tier) disconnect(log *slog.Logger) {
	ctx, stop := context.WithTimeout(context.Background(), farewell)
	defer stop()
	assigned := t.TierStats().Assigned
	if err := t.Disconnect(ctx); err != nil && assigned > 0 {
		log.Warn("the upstream has not taken the assignments back: they end with their time to live", "error", err)
	}
	if t.link != nil {
		_ = t.link.Close()
		t.exchanges.Close()
	}
}

package daemon

import (
	"crypto/rand"
	"errors"
	"log/slog"

	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/redisstore"
	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// A Store is where instances share their limits.
type Store struct {
	Client *redisstore.Client
	Config server.StoreConfig
	// Leaf makes the instance a leaf of the store: it decides by parts of the limits.
	Leaf bool
	// Required keeps the instance from being ready until the store has counted it.
	Required bool
}

// newServer makes the server of the rules: over a store, under an upstream or among peers if there
// are any.
func (d *Daemon) newServer() (err error) {
	switch {
	case d.cfg.Upstream != nil:
		return d.newTier()
	case d.cfg.Peers != nil:
		return d.newFleet()
	case d.cfg.Store != nil:
		return d.newShared()
	}
	d.server, err = server.New(d.cfg.Server)
	d.decider = d.server
	return err
}

// newShared makes the server over a store.
func (d *Daemon) newShared() (err error) {
	store := d.cfg.Store
	cfg := store.Config
	cfg.Link.OnAway = func(err error) {
		if err != nil {
			d.log.Error("the store does not answer: decisions are degraded", "store", store.Client.Address, "error", err)
			d.cfg.Box.Note("store_away")
		} else {
			d.log.Info("the store answers again", "store", store.Client.Address)
		}
	}
	cfg.Link.OnRefused = func(err error) {
		d.log.Error("the store has refused a call (a sample, at most one a minute)", "store", store.Client.Address, "error", err)
	}
	cfg.OnDegraded = func(key string, v *decider.Verdict) {
		d.log.Warn("decided without the store (a sample, at most one a second)", slog.String("key", key), "step", v.Step, "allowed", v.OK)
	}
	of := d.cfg.Server
	if store.Leaf {
		of.Recorder = nil // the leaf has it
	}
	if d.shared, err = server.NewShared(of, cfg); err != nil {
		return err
	}
	d.server, d.decider = d.shared.Server, d.shared
	if !store.Leaf {
		return nil
	}
	d.tier = &tier{url: d.cfg.Store.Client.Address}
	if d.tier.Tier, err = server.NewTier(d.cfg.Server, server.TierConfig{
		Name: rand.Text(), Upstream: d.shared, Assigner: d.shared.NewAssigner(d.cfg.AssignmentTTL), Timeout: cfg.Link.Timeout,
		Away: cfg.Away, Leaves: max(cfg.Instances, 1), OnDegraded: cfg.OnDegraded,
	}); err != nil {
		d.shared.Disconnect()
		return err
	}
	d.server, d.decider = d.tier.Server, d.tier.Tier
	return nil
}

// reloadRules puts rules into force. The shared limits come first: they refuse more rules.
func (d *Daemon) reloadRules(rules *config.Rules) error {
	if d.shared != nil && d.tier != nil {
		if err := d.shared.Reload(rules); err != nil {
			return err
		}
	}
	return d.server.Reload(rules)
}

// joined returns an error while the instance waits for the first answer of a store that it needs.
func (d *Daemon) joined() error {
	if d.shared == nil || !d.cfg.Store.Required || d.shared.Joined() {
		return nil
	}
	return errors.New("the store has not answered since the start, as --store-required wants; the log says why")
}

// blocking reports whether decisions ask other processes.
func (d *Daemon) blocking() bool { return d.shared != nil || d.tier != nil || d.fleet != nil }

// close stops waiting: see server.Server.Close.
func (d *Daemon) close(now bool) {
	d.server.Close(now)
	if d.shared != nil {
		d.shared.Close(now)
	}
	if d.tier != nil {
		d.tier.Close(now)
	}
	if d.fleet != nil {
		d.fleet.fallback.Close(now)
		d.fleet.ring.Close(now)
	}
}

// disconnect ends the use of the store, or of the upstream.
func (d *Daemon) disconnect() {
	if d.tier != nil {
		d.tier.disconnect(d.log)
	}
	if d.shared != nil {
		d.shared.Disconnect()
		_ = d.cfg.Store.Client.Close() // its connections end with the process
	}
}

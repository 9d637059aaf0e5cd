package daemon

import (
	"log/slog"

	"github.com/weir-go/weir/service/internal/redisstore"
	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// A Store is where instances share their limits.
type Store struct {
	Client *redisstore.Client
	Config server.StoreConfig
}

// newServer makes the server of the rules, over the store if there is one.
func (d *Daemon) newServer() (err error) {
	if d.cfg.Upstream != nil {
		return d.newTier()
	}
	store := d.cfg.Store
	if store == nil {
		d.server, err = server.New(d.cfg.Server)
		d.decider = d.server
		return err
	}
	cfg := store.Config
	cfg.Link.OnAway = func(err error) {
		if err != nil {
			d.log.Error("the store does not answer: decisions are degraded", "store", store.Client.Address, "error", err)
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
	if d.shared, err = server.NewShared(d.cfg.Server, cfg); err != nil {
		return err
	}
	d.server, d.decider = d.shared.Server, d.shared
	return nil
}

// blocking reports whether decisions ask other processes.
func (d *Daemon) blocking() bool { return d.shared != nil || d.tier != nil }

// close stops waiting: see server.Server.Close.
func (d *Daemon) close(now bool) {
	switch {
	case d.shared != nil:
		d.shared.Close(now)
	case d.tier != nil:
		d.tier.Close(now)
	default:
		d.server.Close(now)
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

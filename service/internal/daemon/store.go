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

// newServer makes the server of the rules, over the store or among peers if there are some.
func (d *Daemon) newServer() (err error) {
	store := d.cfg.Store
	if d.cfg.Peers != nil {
		return d.newFleet()
	}
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

// close stops waiting: see server.Server.Close.
func (d *Daemon) close(now bool) {
	if d.shared != nil {
		d.shared.Close(now)
		return
	}
	d.server.Close(now)
	if d.fleet != nil {
		d.fleet.fallback.Close(now)
		if now {
			d.fleet.ring.Dismiss()
		}
	}
}

// disconnect ends the use of the store.
func (d *Daemon) disconnect() {
	if d.shared != nil {
		d.shared.Disconnect()
		_ = d.cfg.Store.Client.Close() // its connections end with the process
	}
}

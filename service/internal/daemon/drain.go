package daemon

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weir-go/weir/service/internal/httpserve"
	"github.com/weir-go/weir/service/internal/supervisor"
)

// drain ends the service. First it serves as before, but is not ready, and asks clients to
// leave. Then, until no request waits, or the grace is over, decisions are made as
// before, but no further request may wait; if peers have the keys, nothing more is accepted, and requests that have come get
// their turn there. Then it refuses the requests that still wait, and stops. Requests that are still being read or answered
// are cut off, which is an error.
func (d *Daemon) drain() error {
	d.draining.Store(true)
	supervisor.Stopping(d.log)
	d.rls.Drain()
	if open := d.connections().Open + d.resp.count().Open; open > 0 && d.cfg.DrainDelay > 0 {
		d.log.Info("not ready: clients are asked to leave", "connections", open, "delay", d.cfg.DrainDelay)
		time.Sleep(d.cfg.DrainDelay)
	}
	start := time.Now()
	moved, refuse := d.fleet.leave(d), d.cfg.Drain == "refuse"
	waiting := d.waiting()
	if refuse || !moved {
		d.close(refuse)
	}
	d.log.Info("draining", "how", d.cfg.Drain, "waiting", waiting, "grace", d.cfg.Grace)
	end := time.Now().Add(d.cfg.Grace)
	grace, cancel := context.WithDeadline(context.Background(), end)
	defer cancel()
	if !moved {
		_ = httpserve.Until(grace, func() bool { return d.waiting() == 0 })
	}
	defer context.AfterFunc(grace, func() {
		if n := d.waiting(); n > 0 {
			d.log.Warn("the grace is over: refusing the requests that still wait", "waiting", n)
		}
		d.close(true)
	})()
	_ = d.conns.Close()
	d.conns.CloseUnused()
	// Clients get some time to take their answers.
	ctx, cancel := context.WithDeadline(context.Background(), end.Add(parting))
	defer cancel()
	d.rlqs.Close()
	callers := []func(context.Context) error{d.public.Shutdown, d.grpc.shutdown, d.resp.shutdown, d.leaves.Shutdown}
	ended := make(chan error)
	for _, shutdown := range callers {
		go func() { ended <- shutdown(ctx) }()
	}
	var err error
	for range callers {
		err = errors.Join(err, <-ended)
	}
	if d.fleet.shutdown(ctx); err != nil {
		_ = d.public.Close()
		return fmt.Errorf("--grace=%v was too short: requests in flight were cut off", d.cfg.Grace)
	}
	d.log.Info("drained", "took", time.Since(start).Round(time.Millisecond))
	return nil
}

// waiting returns how many requests wait.
func (d *Daemon) waiting() int {
	n := d.server.Waiting() + d.fleet.waiting()
	if d.shared != nil && d.tier != nil {
		n += d.shared.Waiting()
	}
	return n
}

// parting is the time that clients have to take their answers after the grace.
const parting = 2 * time.Second

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
// before, but no further request may wait. Then it refuses the requests that still
// wait, and stops. Requests that are still being read or answered are cut
// off, which is an error.
func (d *Daemon) drain() error {
	d.draining.Store(true)
	supervisor.Stopping(d.log)
	d.rls.Drain()
	if open := d.connections().Open + d.resp.count().Open; open > 0 && d.cfg.DrainDelay > 0 {
		d.log.Info("not ready: clients are asked to leave", "connections", open, "delay", d.cfg.DrainDelay)
		time.Sleep(d.cfg.DrainDelay)
	}
	start := time.Now()
	d.fleet.leave(d)
	refuse := d.cfg.Drain == "refuse"
	waiting := d.waiting()
	d.close(refuse)
	d.log.Info("draining", "how", d.cfg.Drain, "waiting", waiting, "grace", d.cfg.Grace)
	ctx, cancel := context.WithTimeout(context.Background(), d.cfg.Grace)
	defer cancel()
	if !refuse && httpserve.Until(ctx, func() bool { return d.waiting() == 0 }) != nil {
		d.log.Warn("the grace is over: refusing the requests that still wait", "waiting", d.waiting())
		d.close(true)
	}
	_ = d.conns.Close()
	d.conns.CloseUnused()
	// Clients get some time to take their answers.
	ctx, cancel = context.WithDeadline(context.Background(), start.Add(max(d.cfg.Grace, time.Since(start)+parting)))
	defer cancel()
	d.rlqs.Close()
	leavesEnd := make(chan error, 1)
	go func() { leavesEnd <- d.leaves.Shutdown(ctx) }()
	grpcEnd := d.grpc.end(ctx)
	if err := errors.Join(d.public.Shutdown(ctx), <-grpcEnd, d.resp.shutdown(ctx), d.fleet.shutdown(ctx), <-leavesEnd); err != nil {
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

// parting is the least time that clients have to take their answers.
const parting = 2 * time.Second

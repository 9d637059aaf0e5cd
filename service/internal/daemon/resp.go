package daemon

import (
	"context"
	"net"

	"github.com/weir-go/weir/service/internal/connlimit"
	"github.com/weir-go/weir/service/internal/eventloop"
	"github.com/weir-go/weir/service/internal/transport/respapi"
)

// A respServer serves the clients of Redis at a listener. The zero value has none.
type respServer struct {
	api   *respapi.API
	conns *connlimit.Listener
}

// respFarewell answers a connection of a client of Redis that is refused.
const respFarewell = "-ERR max number of clients reached\r\n"

func (r *respServer) listen(d *Daemon, ln net.Listener) (err error) {
	blocking := d.blocking()
	if d.cfg.TLS.Cert == "" && !blocking {
		if ln, err = eventloop.Listen(ln); err != nil {
			return err
		}
	}
	r.conns = d.limited(ln)
	r.conns.Farewell = respFarewell
	cfg := respapi.Config{
		MaxKey: d.cfg.API.MaxKey, ClientTimeout: d.cfg.ClientTimeout, SetIdle: r.conns.SetIdle, Version: d.cfg.Version, Blocking: blocking, Identify: d.identify(),
	}
	if d.cfg.TLS.ClientCA != "" {
		cfg.Epoch = d.certs.Changes
	}
	if r.api, err = respapi.New(d.asked, cfg); err == nil {
		d.log.Info("RESP", "listen", ln.Addr().String())
	}
	return err
}

// shutdown ends the connections. If ctx ends before, it cuts them off, and returns an error.
func (r *respServer) shutdown(ctx context.Context) error {
	if r.api == nil {
		return nil
	}
	return r.api.Shutdown(ctx)
}

// count counts the connections.
func (r *respServer) count() (n connlimit.Counts) {
	if r.conns != nil {
		n = r.conns.Count()
	}
	return n
}

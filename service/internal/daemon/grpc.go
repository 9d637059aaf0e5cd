package daemon

import (
	"context"
	"net"

	"google.golang.org/grpc"

	"github.com/weir-go/weir/service/internal/connlimit"
	"github.com/weir-go/weir/service/internal/transport/grpcapi"
	"github.com/weir-go/weir/service/internal/transport/weirapi"
	"github.com/weir-go/weir/service/internal/transport/weirapi/weirv1"
)

// A grpcServer serves callers at a listener for gRPC alone. The zero value has none.
type grpcServer struct {
	server *grpc.Server
	conns  *connlimit.Listener
}

func (g *grpcServer) listen(d *Daemon, ln net.Listener) {
	g.conns = d.limited(ln, "h2", "http/1.1")
	// Streams of the quota service last as long as Envoy, and are not traced.
	traced := d.cfg.Export.ServerOptions(weirv1.WeirService_ServiceDesc.ServiceName, weirapi.Allowed)
	g.server = d.rls.NewServer(append(traced, grpc.ConnectionTimeout(d.cfg.ClientTimeout), grpcapi.SetIdle(g.conns.SetIdle))...)
	d.rlqs.Register(g.server)
	d.weir.Register(g.server)
	d.log.Info("gRPC", "listen", ln.Addr().String())
}

// shutdown asks clients to leave, and lets calls finish. If ctx ends before, it cuts them off, and returns an error.
func (g *grpcServer) shutdown(ctx context.Context) error {
	if g.server == nil {
		return nil
	}
	done := make(chan struct{})
	go func() { g.server.GracefulStop(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		g.server.Stop()
		return ctx.Err()
	}
}

// stop ends the server at once.
func (g *grpcServer) stop() { g.server.Stop() }

// cut closes the connections: authorities of clients have changed.
func (g *grpcServer) cut() {
	if g.conns != nil {
		g.conns.CloseOpen()
	}
}

// connections counts the connections of callers.
func (d *Daemon) connections() connlimit.Counts {
	n := d.conns.Count()
	if d.grpc.conns != nil {
		more := d.grpc.conns.Count()
		n = connlimit.Counts{Open: n.Open + more.Open, Shed: n.Shed + more.Shed, Refused: n.Refused + more.Refused, Delayed: n.Delayed + more.Delayed}
	}
	return n
}

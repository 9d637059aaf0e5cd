// Package loadsign is the table of what the end of a request says about the
// load of the service that worked on it. All edges use it: the proxy, the
// middleware and the clients of HTTP and gRPC. weir.OutcomeOf judges errors in the same way.
//
//	what ended the request                            HTTP  gRPC                 outcome
//	an answer                                         <400  OK                   Success
//	the service has no room                           503   UNAVAILABLE          Dropped
//	a service behind it was too late                  504   DEADLINE_EXCEEDED    Dropped; gRPC: Late or TimedOut
//	a concurrency limit or a queue further down
//	  (OverLimit, QueueFull, Overdue, TooLate)        503   UNAVAILABLE          Dropped
//	connection refused, no answer in time                   UNAVAILABLE          Dropped
//	a quota of this client (OverRate, OverBurst)      429   RESOURCE_EXHAUSTED   Ignored
//	a gateway got no valid answer                     502                        Ignored
//	no address, no route, no socket, a failed handshake                          Ignored
//	the client's error, a bug                         4xx, 500, 501  all others  Ignored
//
// A sign of load is a failure that less work in flight could prevent, and that
// no client can cause at will. A quota is about one client. A 502 is no sign:
// a request that crashes its worker causes one, as does a URL, named by the
// client, that leads nowhere. If a gateway fails because of load, latency, 503
// and 504 show that, too. A refused connection is a sign although the service
// may just be down: no client chooses the address. The limit has to find out
// which failures are caused by load.
//
// gRPC tells the deadline of the client to the server, so DEADLINE_EXCEEDED can
// be the client's wish. Its outcome is therefore one that an adaptive limit
// judges by how long the work took.
package loadsign

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"syscall"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/neterr"
	"github.com/weir-go/weir/internal/outcome"
)

// A Sign tells what the end of a request says about the load of the service.
type Sign uint8

const (
	None        Sign = iota // nothing
	Served                  // it works
	Unavailable             // it has no room: 503, UNAVAILABLE
	GatewayLate             // a service behind it was too late: 504
	Rejected                // a concurrency limit or a queue further down had no room, or the error says Dropped
	Refused                 // it refuses connections
	Silent                  // it did not answer in time
	Unreachable             // there is no way to it: no address, no route, a failed handshake
)

// Count is the number of Signs.
const Count = int(Unreachable) + 1

var signs = [Count]string{"none", "served", "unavailable", "gateway_timeout", "rejected", "connection_refused", "timeout", "unreachable"}

// String returns the name for metrics and JSON.
func (s Sign) String() string {
	if int(s) < len(signs) {
		return signs[s]
	}
	return "unknown"
}

// Outcome returns the outcome of a request that ended with s while its caller
// still waited.
func (s Sign) Outcome() weir.Outcome {
	switch s {
	case None, Unreachable:
		return weir.Ignored
	case Served:
		return weir.Success
	}
	return weir.Dropped
}

// Ended returns the outcome of work that has ended with s. Its context's error tells
// whether the caller still waited for the answer.
func (s Sign) Ended(ctxErr error) weir.Outcome {
	switch {
	case ctxErr == nil:
		return s.Outcome()
	case errors.Is(ctxErr, context.DeadlineExceeded):
		return outcome.Late
	}
	return outcome.Gone
}

// Unseen returns the outcome of a call of another service, which may go on working
// after the end of the caller's context. The error comes from that context.
func (s Sign) Unseen(ctxErr error) weir.Outcome {
	switch {
	case ctxErr == nil, s.Outcome() == weir.Dropped:
		return s.Outcome()
	case errors.Is(ctxErr, context.DeadlineExceeded):
		return outcome.TimedOut
	}
	return outcome.Left
}

// OfStatus returns the Sign of an HTTP status.
func OfStatus(code int) Sign {
	switch {
	case code == http.StatusServiceUnavailable:
		return Unavailable
	case code == http.StatusGatewayTimeout:
		return GatewayLate
	case code >= 100 && code < 400:
		return Served
	}
	return None
}

// OfError returns the Sign of an HTTP request without an answer.
func OfError(err error) Sign {
	if err == nil {
		return Served
	}
	if s, ok := judgedSign(err); ok {
		return s
	}
	switch {
	case neterr.Refused(err):
		return Refused
	case unreachable(err):
		return Unreachable
	case neterr.TimedOut(err):
		return Silent
	}
	return None
}

// unreachable reports whether an error says that the service has no address, that there is
// no route to it, or that the handshake of TLS has failed. A look-up or a handshake that takes
// too long is none of these.
func unreachable(err error) bool {
	if dns, ok := errors.AsType[*net.DNSError](err); ok {
		return !dns.IsTimeout
	}
	_, certificate := errors.AsType[*tls.CertificateVerificationError](err)
	_, record := errors.AsType[tls.RecordHeaderError](err)
	op, ok := errors.AsType[*net.OpError](err)
	alert := ok && op.Op == "remote error"                                                                // its type is not exported: tls.AlertError is for QUIC
	socket := ok && op.Op == "dial" && (errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.EACCES)) // a Unix one
	return certificate || record || alert || socket || errors.Is(err, syscall.EHOSTUNREACH) || errors.Is(err, syscall.ENETUNREACH)
}

// judgedSign returns the Sign of an error that says itself what it means for load: a
// rejection by a limiter further down, or an error with an outcome (weir.Outcome.Wrap).
func judgedSign(err error) (s Sign, ok bool) {
	if _, ok = errors.AsType[interface {
		error
		Outcome() weir.Outcome
	}](err); !ok && !errors.Is(err, weir.ErrRejected) {
		return None, false
	}
	switch weir.OutcomeOf(err) {
	case weir.Success:
		return Served, true
	case weir.Dropped:
		return Rejected, true
	}
	return None, true
}

// Status codes of gRPC. They are not imported, so that only users of gRPC
// depend on it.
const (
	grpcOK               = 0
	grpcDeadlineExceeded = 4
	grpcUnavailable      = 14
)

// OfGRPC returns the Sign of a gRPC status code and of the error that became it.
func OfGRPC(code uint32, err error) Sign {
	switch code {
	case grpcOK:
		return Served
	case grpcUnavailable:
		return Unavailable
	case grpcDeadlineExceeded:
		return Silent
	}
	s, _ := judgedSign(err)
	return s
}

package grpclimit

import (
	"context"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/weir-go/weir"
)

// Stream returns the interceptor of streams.
func (c *Client) Stream() grpc.StreamClientInterceptor {
	return func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, next grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		s := &clientStream{exchange: exchange{client: c, method: method}}
		if err := s.exchange.admit(ctx); err != nil {
			return nil, err
		}
		ctx = c.mark(ctx)
		s.ctx, s.throttle = ctx, s.exchange.Throttle.Move()
		err := errPanic // until next returns
		defer func() {
			if err != nil {
				s.finish(err)
			}
		}()
		opts = append(opts[:len(opts):len(opts)], grpc.Trailer(&s.trailer), grpc.OnFinish(s.finish))
		s.ClientStream, err = next(ctx, desc, cc, method, opts...)
		if err != nil {
			return nil, err
		}
		return s, nil
	}
}

var errPanic = status.Error(codes.Internal, "panic")

// clientStream is a stream that holds the permits of its exchange.
type clientStream struct {
	grpc.ClientStream
	exchange exchange
	ctx      context.Context
	trailer  metadata.MD
	once     sync.Once // of finish

	throttle weir.Permit
	heard    sync.Once // of the release of throttle
}

// Header counts the stream as accepted when its header comes, because the first message
// may come hours later.
func (s *clientStream) Header() (metadata.MD, error) {
	md, err := s.ClientStream.Header()
	if md != nil && err == nil { // gRPC has none if the stream has ended without one
		s.accepted()
	}
	return md, err
}

// RecvMsg counts the stream as accepted when its first message comes, because the
// stream may end hours later.
func (s *clientStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	if err == nil {
		s.accepted()
	}
	return err
}

func (s *clientStream) accepted() {
	s.heard.Do(func() { s.throttle.Release(weir.Success) })
}

// finish ends the exchange. gRPC calls it at the end of the stream.
func (s *clientStream) finish(err error) {
	s.once.Do(func() {
		s.heard.Do(func() { s.throttle.Release(answered(s.ctx, status.Convert(err))) })
		s.exchange.end(s.ctx, err, s.trailer)
	})
}

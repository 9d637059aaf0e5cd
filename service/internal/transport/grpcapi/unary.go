package grpcapi

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// unaryPath is the path of ShouldRateLimit.
const unaryPath = rls.RateLimitService_ShouldRateLimit_FullMethodName

// prefixLen is the length of the prefix of a message: whether it is compressed, and its
// length.
const prefixLen = 5

// Values that answers share.
var (
	grpcType  = []string{"application/grpc"}
	trailers  = []string{"Grpc-Status"}
	statusOK  = []string{"0"}
	errPrefix = status.Error(codes.Internal, "the message is incomplete")
	errSlow   = status.Error(codes.DeadlineExceeded, "the message was not received in time")
	errZip    = status.Error(codes.Unimplemented, "messages must not be compressed")
	errLarge  = status.Errorf(codes.ResourceExhausted, "received message larger than max (%d)", maxMessage)
)

// serveUnary answers ShouldRateLimit over HTTP/2. The time for the body must be bounded before. The server of package grpc
// takes three times as long behind net/http.
func (a *API) serveUnary(w http.ResponseWriter, r *http.Request) {
	came := a.clock()
	c := a.calls.Get().(*call)
	defer a.forget(c)
	h := w.Header()
	h["Content-Type"] = grpcType
	err := a.unary(c, r)
	a.end(r.Context(), r.Header, came, err, err == nil && c.over)
	if err != nil { // an answer without a message has its status among its headers
		s := status.Convert(err)
		h["Grpc-Status"], h["Grpc-Message"] = []string{strconv.Itoa(int(s.Code()))}, []string{escapeMessage(s.Message())}
		return
	}
	h["Trailer"] = trailers
	_, _ = w.Write(c.framed()) // a client that is gone needs no answer
	h["Grpc-Status"] = statusOK
}

// unary decides a request.
func (a *API) unary(c *call, r *http.Request) error {
	session, err := a.identifyHeader(r.Header["Authorization"])
	if err != nil {
		return err
	}
	n, err := c.messageLength(r.Body)
	if err != nil {
		return err
	}
	if n > firstRead {
		release, err := a.hold(r.Context(), int64(n))
		if err != nil {
			return err
		}
		defer release()
	}
	if err := c.receive(r.Body, n); err != nil {
		return err
	}
	if err := c.decode(c.out); err != nil {
		return status.Error(codes.Internal, err.Error())
	}
	return a.answer(r.Context(), c, session)
}

// messageLength reads the prefix of a message.
func (c *call) messageLength(body io.Reader) (int, error) {
	prefix := &c.prefix
	if _, err := io.ReadFull(body, prefix[:]); err != nil {
		return 0, incomplete(err)
	}
	n := int(binary.BigEndian.Uint32(prefix[1:]))
	switch {
	case prefix[0] != 0:
		return 0, errZip
	case n > maxMessage:
		return 0, errLarge
	}
	return n, nil
}

// firstRead is the room for the first bytes of a message.
const firstRead = 4 << 10

// receive reads a message of n bytes into the buffer of the answer. The buffer grows with what
// has come, so that a client cannot take memory with a prefix alone.
func (c *call) receive(body io.Reader, n int) error {
	c.out = c.out[:0]
	for have := 0; have < n; {
		if have == cap(c.out) {
			c.out = slices.Grow(c.out, min(n-have, max(have, firstRead)))
		}
		c.out = c.out[:min(n, cap(c.out))]
		if _, err := io.ReadFull(body, c.out[have:]); err != nil {
			return incomplete(err)
		}
		have = len(c.out)
	}
	return nil
}

// incomplete returns the error of a message that was not received whole.
func incomplete(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return errSlow
	}
	return errPrefix
}

// framed returns the answer with its prefix.
func (c *call) framed() []byte {
	n := len(c.out)
	c.out = append(c.out, make([]byte, prefixLen)...)
	copy(c.out[prefixLen:], c.out[:n])
	c.out[0] = 0
	binary.BigEndian.PutUint32(c.out[1:], uint32(n))
	return c.out
}

// escapeMessage writes a text as a value of grpc-message.
func escapeMessage(text string) string {
	var b strings.Builder
	for i := range len(text) {
		if c := text[i]; c >= ' ' && c <= '~' && c != '%' {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

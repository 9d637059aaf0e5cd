package grpcapi

import (
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
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
	errZip    = status.Error(codes.Unimplemented, "messages must not be compressed")
	errLarge  = status.Errorf(codes.ResourceExhausted, "received message larger than max (%d)", maxMessage)
)

// serveUnary answers ShouldRateLimit over the HTTP/2 of net/http. The server of package grpc
// takes three times as long behind net/http.
func (a *API) serveUnary(w http.ResponseWriter, r *http.Request) {
	c := a.calls.Get().(*call)
	defer a.forget(c)
	h := w.Header()
	h["Content-Type"] = grpcType
	err := a.unary(c, r)
	a.count(err)
	if err != nil { // an answer without a message has its status among its headers
		s := status.Convert(err)
		h["Grpc-Status"], h["Grpc-Message"] = []string{strconv.Itoa(int(s.Code()))}, []string{escapeMessage(s.Message())}
		return
	}
	if c.over {
		a.over.Add(1)
	}
	h["Trailer"] = trailers
	_, _ = w.Write(c.framed()) // a client that is gone needs no answer
	h["Grpc-Status"] = statusOK
}

// unary decides a request.
func (a *API) unary(c *call, r *http.Request) error {
	session, err := a.identify(r.Header.Get("Authorization"))
	if err != nil {
		return err
	}
	message, err := c.receive(r.Body)
	if err != nil {
		return err
	}
	if err := c.decode(message); err != nil {
		return status.Error(codes.Internal, err.Error())
	}
	return a.answer(r.Context(), c, session)
}

// receive reads a message into the buffer of the answer.
func (c *call) receive(body io.Reader) ([]byte, error) {
	var prefix [prefixLen]byte
	if _, err := io.ReadFull(body, prefix[:]); err != nil {
		return nil, errPrefix
	}
	n := int(binary.BigEndian.Uint32(prefix[1:]))
	switch {
	case prefix[0] != 0:
		return nil, errZip
	case n > maxMessage:
		return nil, errLarge
	}
	if cap(c.out) < n {
		c.out = make([]byte, n)
	}
	c.out = c.out[:n]
	if _, err := io.ReadFull(body, c.out); err != nil {
		return nil, errPrefix
	}
	return c.out, nil
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

package forward

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"

	"golang.org/x/net/http/httpguts"
)

var (
	errUpgrade  = errors.New("the origin switched to another protocol without being asked")
	errProtocol = errors.New("the client asked for a protocol whose name is no ASCII")
)

// upgradeOf returns the protocol to which a header asks to switch, or switches; "" if there is none.
func upgradeOf(h http.Header) string {
	if !httpguts.HeaderValuesContainsToken(h["Connection"], "Upgrade") {
		return ""
	}
	return h.Get("Upgrade")
}

// switchProtocols passes on an answer that switches to the protocol that the client has asked for, and then
// what both sides send. It returns an error if it has answered nothing.
func (x *exchange) switchProtocols(w http.ResponseWriter, asked *http.Request, resp *http.Response) error {
	origin, ok := resp.Body.(io.ReadWriteCloser)
	to := upgradeOf(asked.Header)
	if !ok || to == "" || !strings.EqualFold(to, upgradeOf(resp.Header)) || x.upload.unended() {
		return errUpgrade
	}
	client, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return err
	}
	defer client.Close()
	defer origin.Close()
	defer context.AfterFunc(x.ctx, func() { _ = origin.Close() })()
	h := w.Header()
	for name, values := range resp.Header {
		h[name] = append(h[name], values...)
	}
	resp.Header, resp.Body = h, nil
	if resp.Write(buffered) != nil || buffered.Flush() != nil {
		return nil
	}
	behind, _ := buffered.Reader.Peek(buffered.Reader.Buffered()) // the request
	ends := make(chan error, 2)
	go func() { ends <- relay(origin, io.MultiReader(bytes.NewReader(behind), client)) }()
	go func() { ends <- relay(client, origin) }()
	if <-ends == nil {
		<-ends
	}
	return nil
}

// errWhole says that a connection cannot end in one direction only.
var errWhole = errors.New("the connection ends in both directions")

// relay passes on what comes from one side, and its end.
func relay(to io.Writer, from io.Reader) error {
	if _, err := io.Copy(to, from); err != nil {
		return err
	}
	if half, ok := to.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errWhole
}

package relay

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
	// ErrUpgrade says that an answer switches to a protocol for which the client has not asked.
	ErrUpgrade = errors.New("the origin switched to another protocol without being asked")
	// errProtocol says that a client asks for a protocol that must not be passed on.
	errProtocol = errors.New("the client asked for a protocol whose name is no ASCII")
)

// CheckUpgrade returns an error if the protocol for which a client asks must not be passed on.
func CheckUpgrade(asked http.Header) error {
	if strings.ContainsFunc(upgradeOf(asked), func(r rune) bool { return r < ' ' || r > '~' }) {
		return errProtocol
	}
	return nil
}

// upgradeOf returns the protocol to which a header asks to switch, or switches; "" if there is none.
func upgradeOf(h http.Header) string {
	if !httpguts.HeaderValuesContainsToken(h["Connection"], "Upgrade") {
		return ""
	}
	return h.Get("Upgrade")
}

// SwitchProtocols passes on an answer that switches to the protocol that the client has asked for, and then
// what both sides send, until ctx ends. It returns an error if it has answered nothing.
func SwitchProtocols(ctx context.Context, w http.ResponseWriter, asked *http.Request, resp *http.Response) error {
	origin, ok := resp.Body.(io.ReadWriteCloser)
	to := upgradeOf(asked.Header)
	if !ok || to == "" || !strings.EqualFold(to, upgradeOf(resp.Header)) {
		return ErrUpgrade
	}
	client, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return err
	}
	defer client.Close()
	defer origin.Close()
	defer context.AfterFunc(ctx, func() { _ = origin.Close() })()
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
	go func() { ends <- pump(origin, io.MultiReader(bytes.NewReader(behind), client)) }()
	go func() { ends <- pump(client, origin) }()
	if <-ends == nil {
		<-ends
	}
	return nil
}

// errWhole says that a connection cannot end in one direction only.
var errWhole = errors.New("the connection ends in both directions")

// pump passes on what comes from one side, and its end.
func pump(to io.Writer, from io.Reader) error {
	if _, err := io.Copy(to, from); err != nil {
		return err
	}
	if half, ok := to.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errWhole
}

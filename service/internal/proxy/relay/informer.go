package relay

import (
	"context"
	"maps"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"sync"
	"sync/atomic"
)

// An Informer passes 1xx answers on to a client, until the final answer.
type Informer struct {
	to    http.ResponseWriter
	mu    sync.Mutex // guards ended, and to before that
	ended bool

	Connected atomic.Bool // an http.Transport had a connection for the request
}

// NewInformer returns an informer of the client of a request. HTTP/1.0 has no 1xx answers.
func NewInformer(w http.ResponseWriter, client *http.Request) *Informer {
	return &Informer{to: w, ended: !client.ProtoAtLeast(1, 1)}
}

// Trace lets an http.RoundTripper call pass, and tell that it has a connection.
func (i *Informer) Trace(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		Got1xxResponse: i.Pass, GotConn: func(httptrace.GotConnInfo) { i.Connected.Store(true) },
	})
}

// Pass implements the hook of httptrace.ClientTrace.
func (i *Informer) Pass(code int, header textproto.MIMEHeader) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.ended {
		return nil
	}
	h := i.to.Header()
	own := maps.Clone(h) // for the final answer
	clear(h)
	maps.Copy(h, http.Header(header))
	i.to.WriteHeader(code)
	clear(h) // WriteHeader does not, for 1xx
	maps.Copy(h, own)
	return nil
}

func (i *Informer) Stop() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.ended = true
}

package forward

import (
	"context"
	"io"
	"maps"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/net/http/httpguts"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/service/internal/proxy/clients"
)

// forward serves a request. It does what httputil.ReverseProxy does, at about half of its
// processor time: it copies the request once, and each header in one pass. An error means that nothing was sent to the client, and
// that the request is to be sent to another origin.
func (x *exchange) forward(w http.ResponseWriter, in *http.Request) error {
	x.inform = &informer{to: w, ended: !in.ProtoAtLeast(1, 1)} // HTTP/1.0 has no 1xx answers
	if strings.ContainsFunc(upgradeOf(in.Header), func(r rune) bool { return r < ' ' || r > '~' }) {
		x.fail(w, in, errProtocol)
		return nil
	}
	out := in.WithContext(in.Context())
	x.outgoing(out, in)
	x.uploads(out, in)
	resp, err := x.roundTrip(out)
	x.inform.end()
	if err == nil && resp.StatusCode == http.StatusSwitchingProtocols {
		if err = x.switchProtocols(w, out, resp); err == nil {
			return nil
		}
		_ = resp.Body.Close()
	}
	switch {
	case x.moved:
		return err
	case err != nil:
		x.fail(w, in, err)
		return nil
	}
	answerHeader(w.Header(), resp)
	x.upload.answerBegins(w.Header())
	announced := len(resp.Trailer)
	if x.Class.Cached {
		w.Header()[clients.StatusField] = []string{resp.Status}
	} else {
		x.Client.PassReason(resp.Status)
	}
	w.WriteHeader(resp.StatusCode)
	err = copyBody(w, resp, x.upload.unended())
	if resp.ProtoMajor == 2 && x.upload.unended() {
		x.release() // otherwise Close waits for the end of the upload
	}
	_ = resp.Body.Close()
	if err != nil {
		x.forwarder.cfg.Log.Debug("the answer broke off", "error", err)
		if in.Context().Value(http.ServerContextKey) != nil { // a server recovers it
			panic(http.ErrAbortHandler)
		}
		return nil
	}
	answerTrailer(w, resp.Trailer, announced)
	x.upload.answerEnds(&x.Client)
	return nil
}

// uploads lets the origin read the body of a request that was not received first, and the trailers that
// the client has announced.
func (x *exchange) uploads(out, in *http.Request) {
	out.Trailer = nil
	if out.Body == nil || out.GetBody != nil {
		return
	}
	client := http.NewResponseController(x.writer)
	x.upload = &upload{
		body: in.Body, client: client, http1: in.ProtoMajor == 1, duplex: client.EnableFullDuplex() == nil,
		limit: x.forwarder.cfg.ClientTimeout, exchange: x,
	}
	x.upload.whole.Store(int64(weir.Never))
	if x.permit.Place.Taken {
		x.forwarder.cfg.Origins.NoteUpload(x.permit.Place.Origin())
	}
	out.Body = x.upload
	if len(in.Trailer) == 0 {
		return
	}
	out.Trailer = make(http.Header, len(in.Trailer))
	for name := range in.Trailer {
		if !hopByHop(name) && !x.forwarder.cfg.Trust.ConcernsClient(name) {
			out.Trailer[name] = nil // until the end of the body
		}
	}
	x.upload.trailers = func() {
		for name := range out.Trailer {
			out.Trailer[name] = in.Trailer[name]
		}
	}
}

// outgoing turns the copy of a request into the one for the origin.
func (x *exchange) outgoing(out, in *http.Request) {
	if in.ContentLength == 0 {
		out.Body = nil // so that the transport may send it again
	}
	url := *in.URL
	out.URL, out.Close = &url, false
	out.Header = make(http.Header, len(in.Header)+4)
	for name, values := range in.Header {
		if !hopByHop(name) {
			out.Header[name] = values
		}
	}
	removeListed(out.Header, in.Header["Connection"])
	switch to := upgradeOf(in.Header); {
	case httpguts.HeaderValuesContainsToken([]string{to}, "h2c"): // its requests would be one exchange for the limit
		delete(out.Header, "Http2-Settings")
	case to != "":
		out.Header["Connection"], out.Header["Upgrade"] = []string{"Upgrade"}, []string{to}
	}
	if httpguts.HeaderValuesContainsToken(in.Header["Te"], "trailers") {
		out.Header["Te"] = []string{"trailers"}
	}
	x.forwarder.cfg.Trust.SetForwarded(out, in, &x.Client)
	if _, ok := out.Header["User-Agent"]; !ok {
		out.Header["User-Agent"] = noAgent
	}
}

// noAgent keeps the transport from adding a User-Agent.
var noAgent = []string{""}

// hopByHop reports whether a header, in its canonical form, concerns one connection only
// (RFC 9110, section 7.6.1; RFC 2616, section 13.5.1).
func hopByHop(name string) bool {
	switch name {
	case "Connection", "Proxy-Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Te", "Trailer",
		"Transfer-Encoding", "Upgrade":
		return true
	}
	return false
}

// removeListed removes the headers that the values of a Connection header list.
func removeListed(h http.Header, connection []string) {
	for _, list := range connection {
		for name := range strings.SplitSeq(list, ",") {
			h.Del(textproto.TrimString(name))
		}
	}
}

// answerHeader adds the header of an answer to that of the client's.
func answerHeader(h http.Header, resp *http.Response) {
	removeListed(resp.Header, resp.Header["Connection"])
	for name, values := range resp.Header {
		switch have := h[name]; {
		case hopByHop(name):
		case have == nil:
			h[name] = values
		default:
			h[name] = append(have[:len(have):len(have)], values...)
		}
	}
	if _, ok := h["Content-Type"]; !ok {
		h["Content-Type"] = nil // otherwise net/http guesses one
	}
	if len(resp.Trailer) > 0 {
		names := make([]string, 0, len(resp.Trailer))
		for name := range resp.Trailer {
			names = append(names, name)
		}
		h.Add("Trailer", strings.Join(names, ", "))
	}
}

// answerTrailer adds the trailer of an answer, after the body.
func answerTrailer(w http.ResponseWriter, trailer http.Header, announced int) {
	if len(trailer) == 0 {
		return
	}
	_ = http.NewResponseController(w).Flush() // so that a short body is chunked, and gets no Content-Length
	prefix := http.TrailerPrefix
	if len(trailer) == announced {
		prefix = ""
	}
	h := w.Header()
	for name, values := range trailer {
		for _, value := range values {
			h.Add(prefix+name, value)
		}
	}
}

// An informer passes 1xx answers on to a client, until the final answer.
type informer struct {
	to    http.ResponseWriter
	mu    sync.Mutex // guards ended, and to before that
	ended bool

	connected atomic.Bool // an http.Transport had a connection for the request
}

// watch lets an http.RoundTripper call pass, and tell that it has a connection.
func (i *informer) watch(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		Got1xxResponse: i.pass, GotConn: func(httptrace.GotConnInfo) { i.connected.Store(true) },
	})
}

// pass implements the hook of httptrace.ClientTrace.
func (i *informer) pass(code int, header textproto.MIMEHeader) error {
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

func (i *informer) end() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.ended = true
}

// copyBody sends the body of an answer to the client. Bodies of unknown length, event streams, and
// answers to a request that goes on (duplex), are flushed as they come.
func copyBody(w http.ResponseWriter, resp *http.Response, duplex bool) error {
	var to io.Writer = w
	if duplex || resp.ContentLength == -1 || kindOf(resp) == stream {
		p := &promptWriter{to: w, flush: http.NewResponseController(w).Flush}
		go p.flushHeader()
		defer p.stop()
		to = p
	}
	var buf []byte
	if n := resp.ContentLength; n > int64(len(buffer{})) || n == -1 && kindOf(resp) != stream {
		large := largeBuffers.Get().(*largeBuffer)
		defer largeBuffers.Put(large)
		buf = large[:]
	} else {
		small := buffers.Get().(*buffer)
		defer buffers.Put(small)
		buf = small[:]
	}
	for {
		n, err := resp.Body.Read(buf)
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				return err
			}
		}
		switch err {
		case nil:
		case io.EOF:
			return nil
		default:
			return err
		}
	}
}

// A promptWriter flushes each write, and the header at once if no body comes.
type promptWriter struct {
	to    io.Writer
	flush func() error
	mu    sync.Mutex // guards to, flush and begun
	begun bool
}

// Write implements io.Writer.
func (p *promptWriter) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.begun = true
	n, err := p.to.Write(b)
	if err == nil {
		_ = p.flush() // the next Write fails, too
	}
	return n, err
}

func (p *promptWriter) flushHeader() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.begun {
		p.begun = true
		_ = p.flush()
	}
}

// stop must precede the end of the handler.
func (p *promptWriter) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.begun = true
}

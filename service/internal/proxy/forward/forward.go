package forward

import (
	"net/http"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/service/internal/proxy/clients"
	"github.com/weir-go/weir/service/internal/proxy/relay"
)

// forward serves a request. It does what httputil.ReverseProxy does, at about half of its
// processor time: it copies the request once, and each header in one pass. An error means that nothing was sent to the client, and
// that the request is to be sent to another origin.
func (x *exchange) forward(w http.ResponseWriter, in *http.Request) error {
	x.inform = relay.NewInformer(w, in)
	if err := relay.CheckUpgrade(in.Header); err != nil {
		x.fail(w, in, err)
		return nil
	}
	out := in.WithContext(in.Context())
	relay.Outgoing(out, in)
	x.forwarder.cfg.Trust.SetForwarded(out, in, &x.Client)
	x.uploads(out, in)
	resp, err := x.roundTrip(out)
	x.inform.Stop()
	if err == nil && resp.StatusCode == http.StatusSwitchingProtocols {
		if err = relay.ErrUpgrade; !x.upload.unended() {
			err = relay.SwitchProtocols(x.ctx, w, out, resp)
		}
		if err == nil {
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
	relay.AnswerHeader(w.Header(), resp)
	x.upload.answerBegins(w.Header())
	announced := len(resp.Trailer)
	if x.Class.Cached {
		w.Header()[clients.StatusField] = []string{resp.Status}
	} else {
		x.Client.PassReason(resp.Status)
	}
	w.WriteHeader(resp.StatusCode)
	err = relay.CopyBody(w, resp, x.upload.unended())
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
	relay.AnswerTrailer(w, resp.Trailer, announced)
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
		if !relay.IsHopByHop(name) && !x.forwarder.cfg.Trust.ConcernsClient(name) {
			out.Trailer[name] = nil // until the end of the body
		}
	}
	x.upload.trailers = func() {
		for name := range out.Trailer {
			out.Trailer[name] = in.Trailer[name]
		}
	}
}

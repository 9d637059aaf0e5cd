package forward

import (
	"net/http"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/service/internal/proxy/clients"
	"github.com/weir-go/weir/service/internal/proxy/relay"
)

// forwardRequest serves a request. It does what httputil.ReverseProxy does, at about half of its
// processor time: it copies the request once, and each header in one pass. An error means that nothing was sent to the client, and
// that the request is to be sent to another origin.
func (f *forward) forwardRequest(w http.ResponseWriter, in *http.Request) error {
	f.inform = relay.NewInformer(w, in)
	if err := relay.CheckUpgrade(in.Header); err != nil {
		f.answerFailure(w, in, err)
		return nil
	}
	out := in.WithContext(in.Context())
	relay.Outgoing(out, in)
	f.forwarder.cfg.Trust.SetForwarded(out, in, &f.Client)
	f.attachUpload(out, in)
	resp, err := f.sendRequest(out)
	f.inform.Stop()
	if err == nil && resp.StatusCode == http.StatusSwitchingProtocols {
		if err = relay.ErrUpgrade; !f.upload.isUnended() {
			err = relay.SwitchProtocols(f.ctx, w, out, resp)
		}
		if err == nil {
			return nil
		}
		_ = resp.Body.Close()
	}
	switch {
	case f.moved:
		return err
	case err != nil:
		f.answerFailure(w, in, err)
		return nil
	}
	relay.AnswerHeader(w.Header(), resp)
	f.upload.answerBegins(w.Header())
	announced := len(resp.Trailer)
	if f.Class.Cached {
		w.Header()[clients.StatusField] = []string{resp.Status}
	} else {
		f.Client.PassReason(resp.Status)
	}
	w.WriteHeader(resp.StatusCode)
	err = relay.CopyBody(w, resp, f.upload.isUnended())
	if resp.ProtoMajor == 2 && f.upload.isUnended() {
		f.cancel() // otherwise Close waits for the end of the upload
	}
	_ = resp.Body.Close()
	if err != nil {
		f.forwarder.cfg.Log.Debug("the answer broke off", "error", err)
		if in.Context().Value(http.ServerContextKey) != nil { // a server recovers it
			panic(http.ErrAbortHandler)
		}
		return nil
	}
	relay.AnswerTrailer(w, resp.Trailer, announced)
	f.upload.answerEnds(&f.Client)
	return nil
}

// attachUpload lets the origin read the body of a request that was not received first, and the trailers that
// the client has announced.
func (f *forward) attachUpload(out, in *http.Request) {
	out.Trailer = nil
	if out.Body == nil || out.GetBody != nil {
		return
	}
	client := http.NewResponseController(f.writer)
	f.upload = &upload{
		body: in.Body, client: client, http1: in.ProtoMajor == 1, duplex: client.EnableFullDuplex() == nil,
		limit: f.forwarder.cfg.ClientTimeout, forward: f,
	}
	f.upload.wholeAt.Store(int64(weir.Never))
	if f.units.Place.Taken {
		f.forwarder.cfg.Origins.NoteUpload(f.units.Place.Origin())
	}
	out.Body = f.upload
	if len(in.Trailer) == 0 {
		return
	}
	out.Trailer = make(http.Header, len(in.Trailer))
	for name := range in.Trailer {
		if !relay.IsHopByHop(name) && !f.forwarder.cfg.Trust.ConcernsClient(name) {
			out.Trailer[name] = nil // until the end of the body
		}
	}
	f.upload.trailers = func() {
		for name := range out.Trailer {
			out.Trailer[name] = in.Trailer[name]
		}
	}
}

package ring

import (
	"github.com/weir-go/weir/service/internal/peer/wire"
	"github.com/weir-go/weir/service/internal/ring/local"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// Receiver returns the decider.Decider for the requests that other members forward.
func (r *Ring) Receiver() decider.Decider {
	return local.Receiver{Owner: r.cfg.Local, Share: r.cfg.Fallback, Duties: duties{r}}
}

// The duties are local.Duties.
type duties struct{ *Ring }

func (d duties) Owns(at uint16) (bool, error) {
	switch w := d.view.Load(); {
	case d.joins(w):
		return false, decider.ErrMoved
	case !w.Quorum:
		return false, nil
	case w.here < 0 || int(w.owners[at]) != w.here || d.cfg.Local.Awaits(at):
		return false, decider.ErrMoved
	}
	return true, nil
}

func (d duties) Assigns() error {
	switch w := d.view.Load(); {
	case d.joins(w):
		return decider.ErrMoved
	case !w.Quorum:
		return wire.ErrUnavailable
	}
	return nil
}

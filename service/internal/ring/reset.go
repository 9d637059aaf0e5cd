package ring

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/weir-go/weir/service/internal/peer/wire"
	"github.com/weir-go/weir/service/internal/ring/local"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// errNoOwner is the error of a reset while the owner of the key cannot be asked.
var errNoOwner = errors.New("the owner of the key does not answer: try again")

// Reset resets a key at its owner.
func (r *Ring) Reset(ctx context.Context, key string) (done []decider.Reset, err error) {
	err = r.ask(ctx, r.keyRoute(key), r.hasty(), nil, func(ctx context.Context, d decider.Decider) (err error) {
		done, err = resetAt(ctx, d, key)
		return err
	})
	if errors.Is(err, errAlone) {
		return nil, errNoOwner
	}
	return done, err
}

// resetAt resets a key at this node, or at the member that a link leads to.
func resetAt(ctx context.Context, d decider.Decider, key string) (done []decider.Reset, err error) {
	switch d := d.(type) {
	case local.Owner:
		return d.Reset(ctx, key)
	case Link:
		body, err := d.Call(ctx, resetCall, []byte(key))
		if err != nil {
			return nil, err
		}
		return done, json.Unmarshal(body, &done)
	}
	return nil, fmt.Errorf("ring: %T cannot reset a key", d)
}

// onReset resets a key for another member. It is not forwarded again.
func (r *Ring) onReset(ctx context.Context, _ wire.Info, body []byte) ([]byte, error) {
	key, err := decider.ParseKey(string(body), len(body))
	if err != nil {
		return nil, err
	}
	done, err := r.cfg.Local.Reset(ctx, key)
	if err != nil {
		return nil, err
	}
	return json.Marshal(done)
}

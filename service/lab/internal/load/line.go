package load

import (
	"context"
	"io"
	"net/url"
	"strings"

	"github.com/weir-go/weir/service/lab/internal/trace"
)

// A lineClient sends lines over TCP or UDP, and expects no answer.
type lineClient struct {
	streams [connections]*stream
	line    template
}

func newLineClient(ctx context.Context, cfg Config, u *url.URL) (client, error) {
	start := discard
	if u.Scheme == "udp" {
		// A write returns the refusal of an earlier datagram. A read would take that away.
		start = func(context.Context, *conn) error { return nil }
	}
	return &lineClient{
		streams: newStreams(ctx, cfg, u, u.Scheme, start),
		line:    newTemplate(strings.TrimSuffix(cfg.Body, "\n") + "\n"),
	}, nil
}

// discard reads all that the target sends, so that the end of the connection is noticed.
func discard(_ context.Context, c *conn) error {
	go func() {
		_, err := io.Copy(io.Discard, c)
		if err == nil {
			err = io.EOF
		}
		c.end(err)
	}()
	return nil
}

func (c *lineClient) exchange(ctx context.Context, n int) (status int, reason string, err error) {
	if _, err := c.streams[n%len(c.streams)].send(ctx, []byte(c.line.expand(n)), nil); err != nil {
		return 0, "", err
	}
	return 0, trace.Sent, nil
}

func (c *lineClient) close() { closeStreams(c.streams) }

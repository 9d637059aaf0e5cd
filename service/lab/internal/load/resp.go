package load

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/url"
	"strconv"
	"strings"
)

// A respClient sends commands in the Redis protocol, RESP2. The requests share a few
// connections and do not wait for each other's replies (pipelining).
type respClient struct {
	streams [connections]*stream
	command []template
	denied  func(*reply) bool // nil if no reply of the command denies
}

// maxPipeline bounds the replies of a connection that are still to come, also for
// requests that have ended.
const maxPipeline = 4096

func newRESPClient(ctx context.Context, cfg Config, u *url.URL) (client, error) {
	var auth []string
	if u.User != nil {
		secret, ok := u.User.Password()
		if !ok {
			return nil, errors.New("load: target: must have a colon before the secret, as in redis://:SECRET@HOST:PORT")
		}
		auth = []string{"AUTH", secret}
		if user := u.User.Username(); user != "" {
			auth = []string{"AUTH", user, secret}
		}
	}
	c := &respClient{streams: newStreams(ctx, cfg, u, "tcp", func(ctx context.Context, c *conn) error {
		return startRESP(ctx, c, auth)
	})}
	for _, word := range strings.Fields(cfg.Body) {
		c.command = append(c.command, newTemplate(word))
	}
	c.denied = denials[strings.ToUpper(c.command[0].expand(1))]
	return c, nil
}

// startRESP begins to read the replies of a connection, and authenticates it unless auth
// is empty.
func startRESP(ctx context.Context, c *conn, auth []string) error {
	c.awaited = make(chan chan<- reply, maxPipeline)
	go func() { _ = c.end(readReplies(c, c.awaited)) }()
	if len(auth) == 0 {
		return nil
	}
	answer := make(chan reply, 1)
	if err := c.write(ctx, encode(auth), answer); err != nil {
		return err
	}
	r, err := c.receive(ctx, answer)
	if err == nil && r.failure != "" {
		err = authError(r.failure)
	}
	return err
}

// An authError is the first word of the reply that refuses the secret.
type authError string

func (e authError) Error() string { return "AUTH: " + string(e) }

func (c *respClient) exchange(ctx context.Context, n int) (status int, reason string, err error) {
	words := make([]string, len(c.command))
	for i, word := range c.command {
		words[i] = word.expand(n)
	}
	answer := make(chan reply, 1)
	conn, err := c.streams[n%len(c.streams)].send(ctx, encode(words), answer)
	if refused, ok := errors.AsType[authError](err); ok {
		return 0, string(refused), nil
	}
	if err != nil {
		return 0, "", err
	}
	r, err := conn.receive(ctx, answer)
	switch {
	case err != nil:
		return 0, "", err
	case r.failure != "":
		return 0, r.failure, nil
	case c.denied != nil && c.denied(&r):
		return statusDenied, "", nil
	default:
		return statusAllowed, "", nil
	}
}

func (c *respClient) close() { closeStreams(c.streams) }

// encode returns a command as an array of bulk strings.
func encode(words []string) []byte {
	b := append(strconv.AppendInt([]byte{'*'}, int64(len(words)), 10), "\r\n"...)
	for _, word := range words {
		b = append(strconv.AppendInt(append(b, '$'), int64(len(word)), 10), "\r\n"...)
		b = append(append(b, word...), "\r\n"...)
	}
	return b
}

// denials has the commands with replies that can deny, and which replies do.
var denials = map[string]func(*reply) bool{
	"CL.THROTTLE": func(r *reply) bool { return r.numbers[0] == 1 },
	"WEIR.TAKE":   (*reply).forbids, "WEIR.WAIT": (*reply).forbids, "WEIR.LEASE": (*reply).forbids,
}

// A reply has the parts that the outcome depends on.
type reply struct {
	failure string   // first word of an error; empty if there was none
	numbers [2]int64 // the first two elements of an array; -1 if there is none, or it is no integer
}

// forbids reports whether the reply begins with the name allowed and 0.
func (r *reply) forbids() bool { return r.numbers[1] == 0 }

// receive waits for the reply to a command.
func (c *conn) receive(ctx context.Context, answer <-chan reply) (reply, error) {
	select {
	case r := <-answer:
		return r, nil
	case <-ctx.Done():
		return reply{}, ctx.Err()
	case <-c.ended:
	}
	select {
	case r := <-answer: // the last one before the end
		return r, nil
	default:
		return reply{}, c.err
	}
}

var errNotRESP = errors.New("load: the target does not answer in RESP2")

// readReplies passes replies on until the connection breaks.
func readReplies(r io.Reader, awaited <-chan chan<- reply) error {
	in := bufio.NewReader(r)
	for {
		one, err := readReply(in)
		if err != nil {
			return err
		}
		select {
		case answer := <-awaited:
			answer <- one
		default:
			return errNotRESP
		}
	}
}

// readReply reads a reply with all its elements. It keeps no more than the buffer of in.
func readReply(in *bufio.Reader) (r reply, err error) {
	r.numbers = [2]int64{-1, -1}
	outer, text, number, err := readElement(in)
	if outer == '-' {
		r.failure = firstWord(text)
	}
	left := max(number, 0)
	if outer != '*' {
		left = 0
	}
	for i := 0; err == nil && left > 0; i++ {
		var kind byte
		kind, _, number, err = readElement(in)
		left--
		switch {
		case kind == '*':
			left += max(number, 0)
		case kind == ':' && i < len(r.numbers):
			r.numbers[i] = number
		}
	}
	return r, err
}

// readElement reads an element: a line, and the bytes that belong to it. The number is an
// integer, or a length.
func readElement(in *bufio.Reader) (kind byte, text string, number int64, err error) {
	line, err := in.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) || err == nil && (len(line) < 3 || line[len(line)-2] != '\r') {
		return 0, "", 0, errNotRESP
	}
	if err != nil {
		return 0, "", 0, err
	}
	kind, text = line[0], string(line[1:len(line)-2])
	switch kind {
	case '+', '-':
		return kind, text, 0, nil
	case ':', '$', '*':
		number, err = strconv.ParseInt(text, 10, 64)
	default:
		err = errNotRESP
	}
	if err != nil || kind != ':' && (number < -1 || number >= 1<<31) {
		return 0, "", 0, errNotRESP
	}
	if kind == '$' && number >= 0 {
		_, err = io.CopyN(io.Discard, in, number+int64(len("\r\n")))
	}
	return kind, text, number, err
}

// firstWord returns the first word of an error, which is a code such as ERR, or "error" if
// that is not of letters and digits.
func firstWord(text string) string {
	word, _, _ := strings.Cut(text, " ")
	ok := func(r rune) bool {
		return r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' || r == '_'
	}
	if len(word) == 0 || len(word) > 40 || strings.ContainsFunc(word, func(r rune) bool { return !ok(r) }) {
		return "error"
	}
	return word
}

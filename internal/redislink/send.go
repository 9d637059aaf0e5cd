package redislink

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
)

// A Script is the source of a script, and the hash by which the server knows it.
type Script struct{ Source, Hash string }

// NewScript returns the Script of a source.
func NewScript(source string) *Script {
	sum := sha1.Sum([]byte(source))
	return &Script{source, hex.EncodeToString(sum[:])}
}

// A Pipe is a pipeline of the client github.com/redis/go-redis, of which a command is a Cmd.
type Pipe[C Cmd, All any] interface {
	Eval(ctx context.Context, script string, keys []string, args ...any) C
	EvalSha(ctx context.Context, hash string, keys []string, args ...any) C
	Exec(ctx context.Context) (All, error)
}

// A Cmd is a command of that client.
type Cmd interface {
	Val() any
	Err() error
	SetErr(error)
	Int64Slice() ([]int64, error)
}

// Send sends calls in a pipeline, by the sources or by the hashes of their scripts, and
// returns their answers.
func Send[C Cmd, All any](ctx context.Context, pipe Pipe[C, All], calls []*Call, source bool) []Answer {
	cmds := make([]C, len(calls))
	for i, c := range calls {
		if source {
			cmds[i] = pipe.Eval(ctx, c.Script.Source, c.Keys, c.Args...)
		} else {
			cmds[i] = pipe.EvalSha(ctx, c.Script.Hash, c.Keys, c.Args...)
		}
	}
	_, failed := pipe.Exec(ctx)
	answers := make([]Answer, len(calls))
	for i, cmd := range cmds {
		if cmd.Err() == nil && cmd.Val() == nil { // the pipeline was not sent
			cmd.SetErr(failed)
		}
		answers[i].Numbers, answers[i].Err = cmd.Int64Slice()
	}
	return answers
}

// answerOf returns the text of an error that the server has answered; "" for other errors.
func answerOf(err error) string {
	var answer interface {
		error
		RedisError()
	}
	if errors.As(err, &answer) {
		return answer.Error()
	}
	return ""
}

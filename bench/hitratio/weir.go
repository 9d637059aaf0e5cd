package main

import (
	"context"

	weir "github.com/weir-go/weir/cache"
)

type weirCache struct{ c *weir.Cache[uint64, uint64] }

func newWeir(size int) cache {
	c, err := weir.New(weir.Config[uint64, uint64]{Entries: size})
	if err != nil {
		panic(err)
	}
	return weirCache{c}
}

func (w weirCache) get(key uint64) bool {
	_, status, _ := w.c.Lookup(context.Background(), key, itself)
	return status == weir.Hit
}

func itself(_ context.Context, key uint64) (uint64, error) { return key, nil }

package main

import (
	"testing"

	"github.com/weir-go/weir/examples/caching/internal/check"
)

func TestCached(t *testing.T) { check.Run(t, router) }

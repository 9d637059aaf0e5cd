package main
type originCmd struct{}
type loadCmd struct{}
type demoCmd struct{}

package main

var tierRows, leafRows, rlqsRows, proxyRows []row

func serveOrigin(string) error { return nil }

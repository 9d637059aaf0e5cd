package main

var rlqsRows []row

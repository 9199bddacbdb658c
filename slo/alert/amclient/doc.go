// Package amclient is a module of its own, so that the product is built without it: it
// names the real Alertmanager that the senders are tested against.
package amclient

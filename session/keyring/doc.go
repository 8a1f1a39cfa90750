// Package keyring keeps the keys that sign histories in files: the tenant's key, and the key of a node with the
// tenant's certificate of it. Package events/proof says what they are for. It imports events and events/proof only.
//
// A directory of keys has these files:
//
//	tenant.key   the tenant's private key: only where certificates are made
//	tenant.pub   its public key, for auditors
//	node.key     the node's private key
//	node.cert    the tenant's certificate of it
//
// Private keys are readable by their owner only: others are refused. An embedded store has a directory with all four,
// which its node makes ([Open]). Nodes of a fleet have one each, without tenant.key, and read it with [Load]; the tenant's
// key stays on another machine, which makes the directories ([Certify]).
//
// A tenant's key next to a node's, as an embedded store has it, makes the certificates no stronger than the store: a
// program that can change the store can sign anything. An auditor should have got the public key and some heads before.
package keyring

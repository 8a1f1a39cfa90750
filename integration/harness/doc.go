// Package harness has the shared parts of the integration tests: an embedded server, hosts, nodes, a model that plays
// a script, and plugins, tools and services for them.
//
//	func TestReply(t *testing.T) {
//	\tb := harness.Start(t, harness.Reply(harness.Text("hello")))
//	\tid := b.Open(session.CreateRequest{})
//	\tb.RunTurn(id, "t1", harness.Text("hi"))
//	\tharness.EqualLists(t, "messages", b.Messages(id), []string{"user hi", "assistant hello"})
//	}
//
// Each sibling folder has the tests of one subject, and a TestMain that calls [Main]. Code that only one folder uses
// is in that folder.
package harness

// Package ring shares keys out among instances of weir serve, without a store: each key has an
// owner, which decides about it, from memory.
//
// Any member of the fleet accepts any key, and asks its owner over a link (package peer). Keys have
// slots (package slot), and rendezvous hashing assigns slots to members (package rendezvous). The
// owner decides or refuses: a request is never forwarded twice.
//
//	r := ring.New(ring.Config{Local: srv, Fallback: alone, Node: node, Dial: dial})
//	err := r.Use([]ring.Member{{Name: "http://a:8080", URL: "http://a:8080"}, ...})
//	err = r.Decide(ctx, &decider.Request{Key: "user:42", N: 1}, &v)
//
// # Members
//
// Every member has a link to every other one, and is Live while that is up. Four times a second,
// members tell each other which members they see. A member that this node cannot ask is
//
//   - Cut if another member sees it, or until all members that this node can ask have answered;
//   - Dead if none of them sees it, and this node sees more than half of the members (a quorum);
//   - Left if it has said that it is shutting down.
//
// A node sees a member for its quorum while each can ask the other. Live and Cut members own slots. So the death of
// a member moves only its keys, and a broken network between two members moves none. A node decides by its safe
// share, the limit divided by the number of members, or as the rule says (config.Rule.Away): about keys of an owner
// that is Cut, and about its own keys while it has no quorum. These verdicts have a Step. Two members
// cannot tell a death from a partition: after the death of one, the other one decides by
// its share, which is half the limit. Use three or more.
//
// # Lists
//
// Each process has a list of members (Use), which can be another one than that of others: they change one by one, DNS answers a
// part, or a process comes back with an old list. With its notes (package census), a process tells its own list, which has
// an epoch: the number of lists that the process has had. A list is told again until the other has heard its epoch. Notes have
// numbers, so that a late one does not undo a later one. A process does not tell what it has heard of the lists of others: what
// no process lists any more is forgotten.
//
// The fleet is the union: members in the list of this node, in the lists of members that it can ask, that one of these
// sees, or that it can ask itself. No process chooses between an older and a newer list: a new member is in when it is there, and one
// that ends is out when it has left, or is lost and in no list. So lists that flap, and partial answers, change nothing.
//
//	known     a list has it, no process has seen it: it owns nothing. It counts for the quorum of a node that lists it
//	alive     this node has reached it, or others have seen it for census.Grace: it is Live or Cut, owns keys, and counts
//	lost      it did not leave: it counts, and is Cut or Dead, while a list has it, and until a majority calls it dead
//	gone      it has left, or no list has it and a majority calls it dead: it does not count
//
// A process that no list has tells its own list over its links. Others take it in if Config.Strangers says that they may. Until
// members can ask it, it does not see them for its quorum: it decides by its share. A process
// whose list has members that are in no other list, and that none has seen, does not count these if one of the others has a quorum: an old list of
// seven does not take the quorum from one of three. A process has the name by which it calls itself, if lists give it several.
//
// All of a fleet know the same union as soon as they have exchanged notes, so they have the same owners. Two sides of a split do
// not both have a quorum: each side counts the members of the other one that it has known, whatever its lists say. There are two
// exceptions. A process that starts within a split, or whose list first names a member within it, knows its list alone: if the lists of both
// sides do not have a majority in common, both decide with the whole limit until the split ends. And a node forgets a lost member that its own
// list has dropped after half a minute, also without a majority.
//
// # Changes of owners
//
// A node that becomes the owner of slots claims them from all members. They give the slots up (requests for them get
// decider.ErrMoved, and are asked again at the new owner) and send their state: counts, leases and settled grants. A node that
// has no link yet to the process that claims gives nothing up. Meanwhile requests for these keys are held, for Config.Hold at
// most. Leave does the same for a member that is shutting down. Requests that wait at an owner that is lost, or gives the key up,
// wait at the next owner, for the time that they have left; what they are answered counts from when they first came. While the
// owners do not change, requests get their turns in order of arrival at the owner.
//
// Owners can change again while a claim is under way. So claims have epochs (handover.Claims). A member refuses a claim if it
// knows a later one of these slots by another; the claimant makes it once more, with a later epoch, if it still owns them. A member
// that claims slots itself has their state before it answers a later claim, so state that is on its way to one owner goes on to
// the next one. A claim waits for earlier ones alone, for as long as these take: 3 s with a member that cannot be asked. Members
// of a version that knows no epochs are told none, and their claims are not refused.
// A member also gives up what another one claims by mistake. If it still owns the slots a second later, it claims them itself.
//
// The state of a process that ends without Leave is lost. Leases of such keys are adopted by the next owner when they are
// renewed, and it grants none before all others must have expired. Grants can be settled at the next owner as long as the rules
// are the same.
//
// # Bounds of over-admission
//
// With a limit of burst B and rate R, N members that count, and no store, at most this is allowed
// for a key beyond B and R over time:
//
//   - The owner dies: B, once: the bucket of the next owner is full. Until the others have agreed, which
//     takes about a second at most, each of the N-1 others also gives its share: B/N and R/N over that time.
//   - The owner is replaced, restarts after Leave, or a member joins: what two owners allow while
//     members do not yet agree, which is B and R for half a second at most: a process owns keys when a majority can ask it, a
//     note from it ends the pauses of the others, and a member that others have seen for census.Grace is
//     asked or decided for by shares. With Leave, less: the state moves.
//   - Lists differ: nothing more than with one list, but for processes that start within a split (see Lists).
//   - Nothing passes between k members and the owner, which others see: k shares, k*B/N and
//     k*R/N for as long as it lasts. For one member of three that is a third of the limit.
//   - A partition with a majority: B for keys with an owner on the side of the minority, and the shares of
//     the m members there, m*B/N and m*R/N with m < N/2: less than half of the limit.
//   - A partition without a majority: 2*B, and R for a second. All members together allow their shares, whose
//     buckets are full; afterwards the bucket of the owner is, which has been refilled meanwhile.
//   - A listed member that never comes: nothing, after the members have agreed that it is dead.
//   - A member that all others lose and find again, any number of times: B in all, and the shares, as
//     the owner before it continues from the state that it has handed over. Such keys can get less than their
//     limit for the time in which a bucket refills.
//   - Leases: no more than the limit in all of these cases, except for shares, limit/N for each member that
//     cannot ask the owner, and for what two owners grant while members do not yet agree, the limit once
//     more. An owner that was stopped and goes on is such an owner.
//
// # Leaves
//
// A leaf (see decider.Decider.Exchange) exchanges with any member, and has assignments of all owners.
// The next owner of a key assigns what the leaves say they have: for 5 s, in which each of them reports, or for
// one time to live if the state of the key is lost. So
// a death or a move gives nothing beyond the limit, but for what a leaf has that is away for more than these 5 s. Leaves that no member of the majority hears go on
// for the rest of their time to live: at most the limit once more, for that time. A leaf whose member
// cannot ask an owner that others see uses its assignments until the owner gives them to others; from then on
// the member decides about keys of that owner, by its share.
package ring

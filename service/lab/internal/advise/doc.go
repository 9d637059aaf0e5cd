// Package advise finds the capacity of a service in a recording of its requests, and what follows from it:
// a limit, a queue, a time-out, a retry budget, and a number of instances.
//
// The knee is the least number of requests in flight with which the throughput is the highest. Of a station
// of workers that do not slow each other down, it is X_max·R_min by Little's law: the highest throughput times
// the response time of a request alone, where the two bounds of operational analysis meet (Denning and Buzen,
// 1978; Kleinrock, 1979). With contention and crosstalk, it is the peak √((1−σ)/κ) of the Universal
// Scalability Law (Gunther, 1993), or the number of workers if that is less.
//
// The recording is cut into windows. The laws are fitted to throughput and response time over what is in flight
// in each window. A limit that kept requests away shows as a lack of windows with more in flight, and not as
// capacity: the response time does not grow below the knee.
package advise
